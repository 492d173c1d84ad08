import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.opensearch.Version;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.PluginInfo;

/**
 * A single OpenSearch 3.x node for tests, on free loopback ports. The argument is its home directory, which must hold an empty folder "config".
 *
 * Prints "port NUMBER" once HTTP is answered. Stops when standard input ends, so that it never outlives the test process, and then removes its
 * home directory; with a second argument "keep" it stays, for a node that is to be started on it again.
 */
public final class OpenSearch3 extends Node {
    private OpenSearch3(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "revsync"), PLUGINS, false);
    }

    private static final List<PluginInfo> PLUGINS = List.of(
        plugin("transport-netty4", "org.opensearch.transport.Netty4ModulePlugin"),
        plugin("lang-painless", "org.opensearch.painless.PainlessModulePlugin"),
        plugin("analysis-common", "org.opensearch.analysis.common.CommonAnalysisModulePlugin"));

    private static PluginInfo plugin(String name, String type) {
        return new PluginInfo(name, name, "none", Version.CURRENT, "21", type, null, List.of(), false);
    }

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
        try (Node node = new OpenSearch3(settings)) {
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
