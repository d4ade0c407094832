import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * RE2/J, by which Apache Kafka resolves a subscribed regular expression: the names in the first line of the input
 * and a pattern in each other line; the numbers of the matching names or the description of the error in each line of
 * the output. All are JSON.
 */
public final class PatternJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintWriter out = new PrintWriter(
            new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        JsonNode names = JSON.readTree(in.readLine());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(names, JSON.readTree(line).asText())));
        }
        out.flush();
    }

    private static ObjectNode answer(JsonNode names, String text) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Pattern pattern = Pattern.compile(text);
            ArrayNode matching = answer.putArray("matching");
            for (int number = 0; number < names.size(); number++) {
                if (pattern.matcher(names.get(number).asText()).matches()) {
                    matching.add(number);
                }
            }
        } catch (PatternSyntaxException error) {
            answer.put("error", error.getDescription());
        } catch (RuntimeException | StackOverflowError error) {
            answer.put("error", error.toString());
        }
        return answer;
    }
}
