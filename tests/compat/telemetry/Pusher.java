import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and a consumer that write and read until their input ends; they print the ids of their instances. */
public class Pusher {
    public static void main(String[] arguments) throws Exception {
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        common.put("client.id", "java-pusher");
        common.put("auto.offset.reset", "earliest");
        common.put("group.id", "pushers");
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(common, new StringSerializer(), new StringSerializer());
             KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(common, new StringDeserializer(), new StringDeserializer())) {
            producer.send(new ProducerRecord<>(arguments[1], "one")).get();
            consumer.subscribe(List.of(arguments[1]));
            Uuid ofProducer = producer.clientInstanceId(Duration.ofSeconds(30));
            consumer.poll(Duration.ofMillis(100));
            Uuid ofConsumer = consumer.clientInstanceId(Duration.ofSeconds(30));
            System.out.println(ofProducer + " " + ofConsumer);
            System.out.flush();
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(arguments[1], "more")).get();
                consumer.poll(Duration.ofMillis(100));
            }
        }
    }
}
