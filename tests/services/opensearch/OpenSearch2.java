import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * A single OpenSearch 2.x node for tests, on free loopback ports. The argument is its home directory, which must hold an empty folder "config".
 *
 * Prints "port NUMBER" once HTTP is answered. Stops when standard input ends, so that it never outlives the test process, and then removes its
 * home directory; with a second argument "keep" it stays, for a node that is to be started on it again.
 */
public final class OpenSearch2 extends Node {
    private OpenSearch2(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "revsync"), PLUGINS, false);
    }

    private static final List<Class<? extends Plugin>> PLUGINS =
        List.of(Netty4Plugin.class, PainlessPlugin.class, CommonAnalysisPlugin.class);

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Settings settings = Settings.builder()
            .put("path.home", home.toString())
            .put("cluster.name", "revsync-tests")
            .put("node.name", "revsync")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", "0")
            .put("transport.port", "0")
            // As on the smaller Amazon instances, so that a body that is too large can be tried.
            .put("http.max_content_length", "10mb")
            // A nearly full disk must not turn a test run's indices read-only.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        try (Node node = new OpenSearch2(settings)) {
            node.start();
            int port = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
            System.out.println("port " + port);
            while (System.in.read() >= 0) {
                // Nothing is ever said here; what matters is the end.
            }
        }
        if (arguments.length == 1 || !arguments[1].equals("keep")) {
            remove(home);
        }
    }

    private static void remove(Path folder) throws IOException {
        try (var paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        }
    }
}
