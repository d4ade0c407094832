import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Apache Kafka's own assignors: a group per line of the input, an assignment per line of the output, both JSON.
 *
 * Targets are read as records are, and members put into a map as the coordinator puts them: the order of the hash
 * tables is that of a broker. Within one bucket keys are in the order of the input.
 */
public final class AssignorJudge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("range", new RangeAssignor(), "uniform", new UniformAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintWriter out = new PrintWriter(
            new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
        out.flush();
    }

    private static ObjectNode assign(JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            String memberId = member.get("id").asText();
            Set<Uuid> topicIds = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topicIds.add(Uuid.fromString(topic.asText())));
            Assignment target = target(member.get("target"));
            target.partitions().forEach((topicId, partitions) -> partitions.forEach(
                partition -> owners.computeIfAbsent(topicId, id -> new HashMap<>()).put(partition, memberId)));
            Optional<String> instanceId = Optional.ofNullable(member.get("instance").textValue());
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.of("rack-" + memberId.length()), instanceId, topicIds, target));
        }
        SubscriptionType type = SubscriptionType.valueOf(group.get("type").asText());
        GroupAssignment assignment = ASSIGNORS.get(group.get("assignor").asText())
            .assign(new GroupSpecImpl(members, type, owners), describer(group.get("counts")));
        return answer(assignment);
    }

    private static Assignment target(JsonNode target) {
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> topics = new ArrayList<>();
        for (JsonNode topic : target) {
            List<Integer> partitions = new ArrayList<>();
            topic.get(1).forEach(partition -> partitions.add(partition.asInt()));
            topics.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(Uuid.fromString(topic.get(0).asText()))
                .setPartitions(partitions));
        }
        return Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(topics));
    }

    private static SubscribedTopicDescriber describer(JsonNode counts) {
        Map<Uuid, Integer> byTopic = new HashMap<>();
        counts.fields().forEachRemaining(
            count -> byTopic.put(Uuid.fromString(count.getKey()), count.getValue().asInt()));
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return byTopic.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                throw new IllegalStateException("racks are asked for");
            }
        };
    }

    private static ObjectNode answer(GroupAssignment assignment) {
        ObjectNode answer = JSON.createObjectNode();
        assignment.members().forEach((memberId, member) -> {
            ObjectNode topics = answer.putObject(memberId);
            member.partitions().forEach((topicId, partitions) -> {
                ArrayNode sorted = topics.putArray(topicId.toString());
                new TreeSet<>(partitions).forEach(sorted::add);
            });
        });
        return answer;
    }
}
