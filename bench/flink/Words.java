// `java Words FILE`: words counted on Flink's DataStream API, in one process with one slot, as Sardonyx' job
// `words` does it with one CPU's worth of work. Prints what it counted, so that a fast wrong answer is noticed.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

public class Words {
  static List<String> lines;
  static final Map<String, Long> COUNTS = new ConcurrentHashMap<>();

  /** Keeps the last count of each word. */
  static class Last implements Sink<Tuple2<String, Long>> {
    public SinkWriter<Tuple2<String, Long>> createWriter(WriterInitContext context) {
      Map<String, Long> last = new HashMap<>();
      return new SinkWriter<>() {
        public void write(Tuple2<String, Long> it, Context context) {
          last.put(it.f0, it.f1);
        }

        public void flush(boolean isLast) {}

        public void close() {
          COUNTS.putAll(last);
        }
      };
    }
  }

  public static void main(String[] arguments) throws Exception {
    lines = Files.readAllLines(Path.of(arguments[0]));
    StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1);
    flink.getConfig().enableObjectReuse();
    var source = new DataGeneratorSource<String>(at -> lines.get(at.intValue()), lines.size(), Types.STRING);
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "lines")
        .flatMap(
            (String line, Collector<Tuple2<String, Long>> out) -> {
              for (String word : line.split(" ")) {
                out.collect(Tuple2.of(word, 1L));
              }
            })
        .returns(Types.TUPLE(Types.STRING, Types.LONG))
        .keyBy(it -> it.f0, Types.STRING)
        .sum(1)
        .sinkTo(new Last());
    flink.execute("words");
    long rows = COUNTS.values().stream().mapToLong(Long::longValue).sum();
    System.out.printf("{\"rows\": %d, \"distinct\": %d}%n", rows, COUNTS.size());
    System.exit(0);
  }
}
