import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.SubscriptionCount;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;

/**
 * Apache Kafka's hash of what a group subscribes to: a cluster and the subscribed names per line of the input, the hash
 * of the group per line of the output. The cluster is an image of its metadata, of the records that a controller writes.
 */
public final class HashJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter output =
                new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                JsonNode question = JSON.readTree(line);
                Map<String, SubscriptionCount> names = new HashMap<>();
                for (JsonNode name : question.get("names")) {
                    names.put(name.asText(), new SubscriptionCount(1, 0));
                }
                KRaftCoordinatorMetadataImage image = new KRaftCoordinatorMetadataImage(image(question));
                output.println(ModernGroup.computeMetadataHash(names, new HashMap<>(), image));
            }
        }
    }

    private static MetadataImage image(JsonNode question) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (JsonNode broker : question.get("brokers")) {
            RegisterBrokerRecord record = new RegisterBrokerRecord().setBrokerId(broker.get("id").asInt());
            record.setRack(broker.get("rack").isNull() ? null : broker.get("rack").asText());
            delta.replay(record);
        }
        for (JsonNode topic : question.get("topics")) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            delta.replay(new TopicRecord().setName(topic.get("name").asText()).setTopicId(id));
            int index = 0;
            for (JsonNode replicas : topic.get("partitions")) {
                List<Integer> ids = new ArrayList<>();
                replicas.forEach(replica -> ids.add(replica.asInt()));
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(index++).setReplicas(ids).setIsr(ids));
            }
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }
}
