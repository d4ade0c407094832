import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Apache Kafka's own assignor of share groups: a group per line of the input, an assignment per line, both JSON. */
public final class SimpleJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answerOrNull(JSON.readTree(line)));
        }
        out.flush();
    }

    /** Null where the class itself fails: it asks an iterator that is at its end. */
    private static String answerOrNull(JsonNode group) throws Exception {
        try {
            return JSON.writeValueAsString(assign(group));
        } catch (NoSuchElementException e) {
            return "null";
        }
    }

    private static ObjectNode assign(JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            Set<Uuid> topicIds = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topicIds.add(Uuid.fromString(topic.asText())));
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topicIds, target(member.get("target"))));
        }
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        group.get("topics").fields().forEachRemaining(topic -> {
            Uuid topicId = Uuid.fromString(topic.getKey());
            counts.put(topicId, topic.getValue().get("count").asInt());
            Set<Integer> partitions = assignable.computeIfAbsent(topicId, id -> new HashSet<>());
            topic.getValue().get("assignable").forEach(partition -> partitions.add(partition.asInt()));
        });
        SubscriptionType type = SubscriptionType.valueOf(group.get("type").asText());
        GroupSpecImpl spec = new GroupSpecImpl(members, type, Map.of(), Optional.of(assignable));
        return answer(new SimpleAssignor().assign(spec, new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                throw new IllegalStateException("racks are asked for");
            }
        }));
    }

    private static Assignment target(JsonNode target) {
        List<ShareGroupTargetAssignmentMemberValue.TopicPartition> topics = new ArrayList<>();
        for (JsonNode topic : target) {
            List<Integer> partitions = new ArrayList<>();
            topic.get(1).forEach(partition -> partitions.add(partition.asInt()));
            topics.add(new ShareGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(Uuid.fromString(topic.get(0).asText()))
                .setPartitions(partitions));
        }
        return Assignment.fromRecord(new ShareGroupTargetAssignmentMemberValue().setTopicPartitions(topics));
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
