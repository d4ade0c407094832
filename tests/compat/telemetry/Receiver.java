import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.*;

/** Takes what clients push, reads it whole, and forgets it: with it Apache Kafka serves client telemetry. */
public class Receiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    @Override public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        if (payload.data().remaining() < 0) throw new IllegalStateException();
    }
    @Override public ClientTelemetryReceiver clientReceiver() { return this; }
    @Override public void init(List<KafkaMetric> metrics) { }
    @Override public void metricChange(KafkaMetric metric) { }
    @Override public void metricRemoval(KafkaMetric metric) { }
    @Override public void close() { }
    @Override public void configure(Map<String, ?> settings) { }
}
