import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Every fault of the control, seen by the Java client: one line on standard output for each, `name: outcome`. */
class FaultsOverHttp {
    static final HttpClient http = HttpClient.newHttpClient();
    static String control;
    static String servers;

    static String ask(String method, String path, String fields) throws Exception {
        var uri = URI.create("http://" + control + path);
        var request = HttpRequest.newBuilder(uri).method(method, BodyPublishers.ofString(fields)).build();
        var response = http.send(request, BodyHandlers.ofString());
        if (response.statusCode() >= 400) throw new IllegalStateException(method + " " + path + ": " + response.body());
        return response.body();
    }

    static String field(String json, String name) {
        var found = Pattern.compile("\"" + name + "\": (\"([^\"]*)\"|\\[[^\\]]*\\]|[^,}\\]]+)").matcher(json);
        if (!found.find()) throw new IllegalStateException(name + " is not in " + json);
        return found.group(2) != null ? found.group(2) : found.group(1);
    }

    static String topic(int replicas) throws Exception {
        return field(ask("POST", "/topics", "{\"replicas\": " + replicas + "}"), "name");
    }

    static String fault(String topic, String rest) throws Exception {
        return field(ask("POST", "/faults", "{\"api\": \"Produce\", \"topic\": \"" + topic + "\", " + rest + "}"), "id");
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        var settings = new HashMap<String, Object>(Map.of(
                "bootstrap.servers", servers, "retry.backoff.ms", 10, "reconnect.backoff.ms", 10,
                "reconnect.backoff.max.ms", 50, "request.timeout.ms", 1000, "delivery.timeout.ms", 30000));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        var settings = new HashMap<String, Object>(Map.of(  // A consumer's close waits for the fetch that is delayed.
                "bootstrap.servers", servers, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "fetch.max.wait.ms", 20));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static List<String> values(String topic) {
        try (var reader = consumer(Map.of())) {
            var place = new TopicPartition(topic, 0);
            reader.assign(List.of(place));
            var end = reader.endOffsets(List.of(place)).get(place);
            var found = new ArrayList<String>();
            while (reader.position(place) < end) reader.poll(Duration.ofMillis(100)).forEach(one -> found.add(one.value()));
            return found;
        }
    }

    static void waitUntilItFollows(String topic, String broker) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            while (true) {
                var partition = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
                var leads = partition.leader() == null || broker.equals(partition.leader().idString());
                if (!leads && partition.isr().stream().anyMatch(one -> broker.equals(one.idString()))) return;
            }
        }
    }

    static void say(String name, Object outcome) {
        System.out.println(name + ": " + outcome);
    }

    static boolean waits(Future<RecordMetadata> sent) throws Exception {
        try {
            sent.get(200, TimeUnit.MILLISECONDS);
            return false;
        } catch (TimeoutException late) {
            return true;
        }
    }

    static void sent(String name, String rest) throws Exception {
        var topic = topic(1);
        var timeout = rest.contains("drop_") ? 300 : 1000;  // A request that is sent again has no effect of its own.
        var settings = Map.<String, Object>of("enable.idempotence", !rest.contains("after_handling"), "request.timeout.ms", timeout);
        try (var producer = producer(settings)) {
            producer.partitionsFor(topic);
            var fault = fault(topic, rest);
            producer.send(new ProducerRecord<>(topic, "one")).get();
            say(name, field(ask("DELETE", "/faults/" + fault, ""), "used") + " " + values(topic));
        } catch (ExecutionException error) {
            ask("DELETE", "/faults", "");
            say(name, error.getCause().getClass().getSimpleName() + " " + values(topic));
        }
    }

    static void late(String name, String rest, boolean released) throws Exception {
        var topic = topic(1);
        try (var producer = producer(Map.of("request.timeout.ms", 20000))) {
            producer.partitionsFor(topic);
            var fault = fault(topic, rest);
            var sent = producer.send(new ProducerRecord<>(topic, "one"));
            var before = waits(sent) + " " + values(topic);
            if (released) ask("POST", "/faults/" + fault + "/release", "");
            sent.get();
            ask("DELETE", "/faults", "");
            say(name, before + " " + values(topic));
        }
    }

    static void away(String name, String goes, String fields, String comes, String more) throws Exception {
        var topic = topic(1);
        try (var producer = producer(Map.of("request.timeout.ms", 20000))) {
            producer.send(new ProducerRecord<>(topic, "zero")).get();
            var broker = field(ask("GET", "/topics/" + topic + "/partitions/0", ""), "leader");
            ask("POST", "/brokers/" + broker + goes, fields);
            var sent = producer.send(new ProducerRecord<>(topic, "one"));
            var before = waits(sent);
            ask("POST", "/brokers/" + broker + comes, more);
            sent.get();
            say(name, before + " " + values(topic));
        }
    }

    static String raised(Callable<?> call) throws Exception {
        try {
            call.call();
            return "nothing";
        } catch (RuntimeException error) {
            return error.getClass().getSimpleName();
        }
    }

    public static void main(String[] arguments) throws Exception {
        control = arguments[0];
        servers = field(ask("GET", "/", ""), "bootstrap_servers");
        sent("fail", "\"times\": 2, \"do\": \"fail\", \"code\": \"NOT_ENOUGH_REPLICAS\"");
        sent("fail for good", "\"do\": \"fail\", \"code\": \"TOPIC_AUTHORIZATION_FAILED\"");
        sent("drop_answer", "\"times\": 1, \"do\": \"drop_answer\"");
        sent("drop_request", "\"times\": 1, \"do\": \"drop_request\"");
        sent("close_connection", "\"times\": 1, \"do\": \"close_connection\"");
        sent("close_connection after", "\"times\": 1, \"do\": \"close_connection\", \"after_handling\": true");
        late("delay", "\"do\": \"delay\", \"ms\": 500", false);
        late("hold", "\"do\": \"hold\"", true);
        late("hold before", "\"do\": \"hold\", \"before\": true", true);
        away("kill", "/kill", "", "/start", "");
        away("stop", "/stop", "", "/start", "");
        away("pause", "/pause", "{\"detected\": false}", "/resume", "");
        away("disk", "/disk", "{\"full\": true}", "/disk", "{\"full\": false}");

        var damaged = topic(1);
        try (var producer = producer(Map.of()); var reader = consumer(Map.of())) {
            producer.send(new ProducerRecord<>(damaged, "x".repeat(1000))).get();
            ask("POST", "/faults", "{\"api\": \"Fetch\", \"topic\": \"" + damaged + "\", \"do\": \"corrupt\"}");
            reader.assign(List.of(new TopicPartition(damaged, 0)));
            var error = raised(() -> reader.poll(Duration.ofSeconds(20)));
            ask("DELETE", "/faults", "");
            say("corrupt", !error.equals("nothing"));  // Releases raise different ones.
        }

        var led = topic(3);
        var path = "/topics/" + led + "/partitions/0";
        var leader = field(ask("GET", path, ""), "leader");
        try (var producer = producer(Map.of("acks", "all", "request.timeout.ms", 300))) {
            producer.send(new ProducerRecord<>(led, "one")).get();
            var moved = field(ask("POST", path + "/leader", ""), "leader");
            producer.send(new ProducerRecord<>(led, "two")).get();
            ask("POST", "/brokers/" + moved + "/pause", "{\"detected\": true}");
            producer.send(new ProducerRecord<>(led, "three")).get();
            ask("POST", "/brokers/" + moved + "/resume", "");
            waitUntilItFollows(led, moved);  // Until then it believes that it leads, and says where the log ended.
            say("leader", !moved.equals(leader) + " " + values(led));
        }

        var group = topic(1);
        try (var producer = producer(Map.of()); var reader = consumer(Map.of("group.id", "shop", "heartbeat.interval.ms", 50))) {
            producer.send(new ProducerRecord<>(group, "one")).get();
            reader.subscribe(List.of(group));
            while (reader.poll(Duration.ofMillis(100)).isEmpty()) continue;
            var member = reader.groupMetadata().memberId();
            var expelled = ask("POST", "/groups/shop/expel", "").contains(member);
            while (reader.groupMetadata().memberId().equals(member)) reader.poll(Duration.ofMillis(50));
            say("expel", expelled);
            ask("POST", "/topics/" + group + "/expire", "");
            try (var late = consumer(Map.of("auto.offset.reset", "none"))) {
                late.assign(List.of(new TopicPartition(group, 0)));
                late.seek(new TopicPartition(group, 0), 0);
                say("expire", raised(() -> late.poll(Duration.ofSeconds(20))));
            }
        }

        var fenced = topic(1);
        try (var reader = consumer(Map.of("group.id", "fenced", "heartbeat.interval.ms", 50))) {
            var lost = new ArrayList<TopicPartition>();
            reader.subscribe(List.of(fenced), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    lost.addAll(partitions);
                }
            });
            while (reader.assignment().isEmpty()) reader.poll(Duration.ofMillis(50));
            var member = reader.groupMetadata().memberId();
            var known = field(ask("GET", "/groups/fenced", ""), "members").contains(member);
            ask("POST", "/groups/fenced/fence", "{\"member\": \"" + member + "\"}");
            while (lost.isEmpty() || reader.assignment().isEmpty()) reader.poll(Duration.ofMillis(50));
            say("fence member", known + " " + lost.size());
            var held = ask("POST", "/groups/fenced/hold-heartbeats", "{\"member\": \"" + reader.groupMetadata().memberId() + "\"}");
            while (field(ask("GET", "/faults/" + field(held, "id"), ""), "used").equals("0")) reader.poll(Duration.ofMillis(50));
            ask("POST", "/faults/" + field(held, "id") + "/release", "");
            say("hold heartbeats", field(ask("DELETE", "/faults/" + field(held, "id"), ""), "used").equals("0"));
        }
        try (var reader = consumer(Map.of("group.id", "refused"))) {
            ask("POST", "/groups/refused/refuse-assignor", "{\"assignor\": \"range\"}");
            reader.subscribe(List.of(fenced));
            say("refuse assignor", raised(() -> reader.poll(Duration.ofSeconds(20))));
            ask("DELETE", "/faults", "");
        }

        try (var producer = producer(Map.of("transactional.id", "till 7"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(group, "never")).get();
            var id = URLEncoder.encode("till 7", StandardCharsets.UTF_8).replace("+", "%20");
            ask("POST", "/transactional-ids/" + id + "/fence", "");
            say("fence", raised(() -> { producer.commitTransaction(); return null; }));
        }

        var before = Long.parseLong(field(ask("GET", "/clock", ""), "now_ms"));
        ask("POST", "/clock", "{\"advance_s\": 3600}");
        try (var producer = producer(Map.of())) {
            var appended = field(ask("POST", "/topics", "{\"config\": {\"message.timestamp.type\": \"LogAppendTime\"}}"), "name");
            var timestamp = producer.send(new ProducerRecord<>(appended, "later")).get().timestamp();
            say("clock", timestamp - before >= 3_600_000);
        }
        ask("POST", "/undo", "");
        say("undo", ask("GET", "/faults", "").trim());
    }
}
