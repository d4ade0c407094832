import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Flink copies a topic into others, exactly once: BOOTSTRAP PROTOCOL INPUT OUTPUT GROUP FOLDER TOTAL.
 *
 * The first job is bounded by the end of the input, and ends by itself; its output and group end in "-bounded". The second is
 * not, and is stopped with a savepoint after a third of the records. The third begins with the savepoint, and is stopped
 * when it has committed the offsets of all. The first and the second fail once after a checkpoint, and restart from it.
 */
public class Copier {
    private static final AtomicBoolean HAS_FAILED = new AtomicBoolean();
    private static final Set<String> SEEN = ConcurrentHashMap.newKeySet();
    private static final int SECONDS_MAX = 120;

    public static void main(String[] arguments) throws Exception {
        String folder = "file://" + arguments[5];
        int total = Integer.parseInt(arguments[6]);
        copy(arguments, "-bounded", null).getJobExecutionResult().get(SECONDS_MAX, TimeUnit.SECONDS);
        System.out.println("bounded: failed=" + HAS_FAILED + " seen=" + SEEN.size());
        HAS_FAILED.set(false);
        SEEN.clear();
        JobClient second = copy(arguments, "", null);
        await(second, () -> SEEN.size() > total / 3 && HAS_FAILED.get());
        String savepoint = stop(second, folder, false);
        System.out.println("second: failed=" + HAS_FAILED + " is before the end=" + (SEEN.size() < total));
        JobClient third = copy(arguments, "", savepoint);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            await(third, () -> committed(admin, arguments[4]) == total);
        }
        stop(third, folder, true);
        System.out.println("third: seen=" + SEEN.size());
    }

    private static void await(JobClient job, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS_MAX);
        while (!condition.call()) {
            JobStatus status = job.getJobStatus().get();
            if (status.isGloballyTerminalState()) throw new IllegalStateException("the job is " + status);
            if (System.nanoTime() > deadline) throw new IllegalStateException("too late: seen " + SEEN.size());
            Thread.sleep(20);
        }
    }

    private static String stop(JobClient job, String folder, boolean isDrained) throws Exception {
        return job.stopWithSavepoint(isDrained, folder + "/savepoints", SavepointFormatType.CANONICAL)
            .get(SECONDS_MAX, TimeUnit.SECONDS);
    }

    private static long committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
            .mapToLong(OffsetAndMetadata::offset).sum();
    }

    private static JobClient copy(String[] arguments, String suffix, String savepoint) throws Exception {
        String folder = "file://" + arguments[5];
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder + "/checkpoints");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 1);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
        if (savepoint != null) configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint);
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        environment.enableCheckpointing(250, CheckpointingMode.EXACTLY_ONCE);
        environment
            .fromSource(source(arguments, suffix), WatermarkStrategy.noWatermarks(), "input")
            .uid("input")
            .map(new FailOnce())
            .uid("fail once")
            .sinkTo(sink(arguments, arguments[3] + suffix))
            .uid("output");
        return environment.executeAsync("copy");
    }

    private static KafkaSource<String> source(String[] arguments, String suffix) {
        KafkaSourceBuilder<String> builder = KafkaSource.<String>builder()
            .setBootstrapServers(arguments[0])
            .setGroupId(arguments[4] + suffix)
            .setTopicPattern(Pattern.compile(Pattern.quote(arguments[2])))
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setDeserializer(new WithPlace())
            .setProperty("group.protocol", arguments[1]);
        return (suffix.isEmpty() ? builder : builder.setBounded(OffsetsInitializer.latest())).build();
    }

    private static KafkaSink<String> sink(String[] arguments, String topic) {
        Properties producer = new Properties();
        producer.put("transaction.timeout.ms", "60000");
        return KafkaSink.<String>builder()
            .setBootstrapServers(arguments[0])
            .setKafkaProducerConfig(producer)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-" + topic)
            .setRecordSerializer(new Copied(topic))
            .build();
    }

    /** Partition, offset and value of a record. */
    private static class WithPlace implements KafkaRecordDeserializationSchema<String> {
        @Override public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            String value = new String(record.value(), StandardCharsets.UTF_8);
            out.collect(record.partition() + " " + record.offset() + " " + value);
        }
        @Override public TypeInformation<String> getProducedType() { return TypeInformation.of(String.class); }
    }

    private record Copied(String topic) implements KafkaRecordSerializationSchema<String> {
        @Override public ProducerRecord<byte[], byte[]> serialize(String row, KafkaSinkContext context, Long at) {
            return new ProducerRecord<>(topic, row.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Takes its time, so that checkpoints come between records, and fails once, some records after a checkpoint. */
    private static class FailOnce extends RichMapFunction<String, String> implements CheckpointListener {
        private transient boolean isCheckpointed;
        private transient int since;

        @Override public String map(String row) throws Exception {
            Thread.sleep(1);
            SEEN.add(row);
            if (isCheckpointed && ++since > 50 && HAS_FAILED.compareAndSet(false, true)) {
                throw new IllegalStateException("as planned");
            }
            return row;
        }
        @Override public void notifyCheckpointComplete(long checkpoint) { isCheckpointed = true; }
    }
}
