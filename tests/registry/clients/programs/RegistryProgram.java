import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.BinaryEncoder;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Confluent's Java client of a registry, with the names under which Flink carries it: each line says what it was answered. */
public final class RegistryProgram {
    private static final String ORDER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}";
    private static final String NOTED =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"},"
                    + "{\"name\":\"note\",\"type\":\"string\",\"default\":\"\"}]}";
    private static final String OTHER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"sum\",\"type\":\"double\"}]}";
    private static final String BASKET =
            "{\"type\":\"record\",\"name\":\"Basket\",\"fields\":[{\"name\":\"first\",\"type\":\"Order\"}]}";

    private interface Attempt {
        void run() throws Exception;
    }

    private RegistryProgram() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        try (SchemaRegistryClient client = new CachedSchemaRegistryClient(arguments[1], 100)) {
            versions(client);
            references(client);
            settings(client);
            deletions(client);
            write(client, bootstrap);
            read(client, bootstrap);
        }
    }

    private static void versions(SchemaRegistryClient client) throws Exception {
        int id = client.register("java", new AvroSchema(ORDER));
        say("registered again", client.register("java", new AvroSchema(ORDER)) == id);
        say("by id", client.getSchemaById(id).canonicalString());
        say("compatible", client.testCompatibility("java", new AvroSchema(NOTED)));
        say("not compatible", client.testCompatibilityVerbose("java", new AvroSchema(OTHER)).isEmpty());
        say("refused", refused(() -> client.register("java", new AvroSchema(OTHER))));
        int noted = client.register("java", new AvroSchema(NOTED));
        SchemaMetadata latest = client.getLatestSchemaMetadata("java");
        say("latest", latest.getVersion() + " " + (latest.getId() == noted));
        say("versions", client.getAllVersions("java"));
        say("version of", client.getVersion("java", new AvroSchema(ORDER)));
        say("subjects of id", client.getAllSubjectsById(id));
        say("unknown id", refused(() -> client.getSchemaById(999)));
        say("unknown subject", refused(() -> client.getLatestSchemaMetadata("nowhere")));
        Metadata metadata = new Metadata(null, Map.of("major", "2"), null);
        client.register("java", new AvroSchema(NOTED).copy(metadata, null));
        say("with metadata", client.getLatestWithMetadata("java", Map.of("major", "2"), false).getVersion());
    }

    private static void references(SchemaRegistryClient client) throws Exception {
        List<SchemaReference> references = List.of(new SchemaReference("Order", "java", 1));
        AvroSchema basket = new AvroSchema(BASKET, references, Map.of("Order", ORDER), null);
        int id = client.register("basket", basket);
        client.reset();
        say("reference", client.getSchemaById(id).references());
        say("resolved", ((AvroSchema) client.getSchemaById(id)).rawSchema().getField("first").schema().getName());
    }

    private static void settings(SchemaRegistryClient client) throws Exception {
        say("level", client.updateCompatibility("java", "FULL") + " " + client.getCompatibility("java"));
        client.deleteCompatibility("java");
        say("level of all", client.getConfig(null).getCompatibilityLevel());
        say("mode", client.setMode("READONLY", "java") + " " + client.getMode("java"));
        say("read only", refused(() -> client.register("java", new AvroSchema("\"int\""))));
        client.deleteMode("java");
        say("mode of all", client.getMode());
    }

    private static void deletions(SchemaRegistryClient client) throws Exception {
        client.register("old", new AvroSchema("\"string\""));
        say("deleted", client.deleteSubject("old"));
        say("deleted for good", client.deleteSubject("old", true));
        say("subjects", client.getAllSubjects().stream().sorted().toList());
    }

    /** A record as Confluent's serializer has it: a byte of 0, the id, Avro. */
    private static void write(SchemaRegistryClient client, String bootstrap) throws Exception {
        Schema schema = new Schema.Parser().parse(NOTED);
        GenericRecord order = new GenericData.Record(schema);
        order.put("id", 7L);
        order.put("note", "of Java");
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ConfluentSchemaRegistryCoder("of-java-value", client).writeSchema(schema, bytes);
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<GenericRecord>(schema).write(order, encoder);
        encoder.flush();
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>("of-java", bytes.toByteArray())).get();
        }
    }

    /** The records of another language's serializer. */
    private static void read(SchemaRegistryClient client, String bootstrap) throws Exception {
        TopicPartition partition = new TopicPartition("of-python", 0);
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            for (int seen = 0; seen == 0; ) {
                for (var found : consumer.poll(Duration.ofSeconds(1)).records(partition)) {
                    ByteArrayInputStream bytes = new ByteArrayInputStream(found.value());
                    Schema schema = new ConfluentSchemaRegistryCoder(client).readSchema(bytes);
                    var reader = new GenericDatumReader<GenericRecord>(schema);
                    say("record", reader.read(null, DecoderFactory.get().directBinaryDecoder(bytes, null)));
                    seen++;
                }
            }
        }
    }

    private static String refused(Attempt attempt) throws Exception {
        try {
            attempt.run();
            return "no";
        } catch (RestClientException error) {
            return error.getStatus() + " " + error.getErrorCode();
        }
    }

    private static void say(String what, Object answer) {
        System.out.println(what + ": " + answer);
    }
}
