import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;

/** Answers each line, an expression and names in hexadecimal, with what RE2/J matches. */
public class AskRegexes {
    public static void main(String[] args) {
        var lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(answer(text(words[0]), words));
        }
    }

    static String answer(String regex, String[] words) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(regex);
        } catch (PatternSyntaxException e) {
            return "invalid";
        }
        StringBuilder found = new StringBuilder("valid");
        for (int i = 1; i < words.length; i++)
            found.append(pattern.matches(text(words[i])) ? " 1" : " 0");
        return found.toString();
    }

    static String text(String digits) {
        return new String(HexFormat.of().parseHex(digits), StandardCharsets.UTF_8);
    }
}
