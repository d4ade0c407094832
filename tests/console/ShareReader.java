// A member of a share group (KIP-932) that reads until it is stopped; one line when it has joined.
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

public class ShareReader {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        String deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", deserializer);
        settings.put("value.deserializer", deserializer);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            System.out.println("reading");
            while (true) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
