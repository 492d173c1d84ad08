import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;

/**
 * A single Kafka broker for tests, on free loopback ports. The argument is its home directory.
 *
 * Prints "port NUMBER" (plain text) and "sasl NUMBER" (SASL without TLS: PLAIN and SCRAM-SHA-256, the user ann with the password hunter2) once it
 * answers. Stops when standard input ends, so that it never outlives the test process, and then removes its home directory; with a second argument
 * "keep" it stays, for a broker that is to be started on it again, at the same ports.
 */
public final class Broker {
    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Path properties = home.resolve("server.properties");
        boolean isNew = !Files.exists(properties);
        if (isNew) {
            int port = free(), sasl = free(), controller = free();
            Files.writeString(home.resolve("ports"), port + " " + sasl);
            Files.writeString(properties, String.join("\n",
                "process.roles=broker,controller",
                "node.id=1",
                "controller.quorum.bootstrap.servers=127.0.0.1:" + controller,
                "listeners=PLAIN://127.0.0.1:" + port + ",SASL://127.0.0.1:" + sasl + ",CONTROLLER://127.0.0.1:" + controller,
                "advertised.listeners=PLAIN://127.0.0.1:" + port + ",SASL://127.0.0.1:" + sasl,
                "listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names=CONTROLLER",
                "inter.broker.listener.name=PLAIN",
                "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
                "listener.name.sasl.plain.sasl.jaas.config="
                    + "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=\"hunter2\";",
                "listener.name.sasl.scram-sha-256.sasl.jaas.config="
                    + "org.apache.kafka.common.security.scram.ScramLoginModule required;",
                "log.dirs=" + home.resolve("data"),
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=4",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "transaction.state.log.num.partitions=2",
                "share.coordinator.state.topic.replication.factor=1",
                "share.coordinator.state.topic.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                "group.min.session.timeout.ms=1000",
                "group.consumer.min.session.timeout.ms=1000",
                "group.consumer.min.heartbeat.interval.ms=500",
                "log.cleaner.backoff.ms=200",
                "log.retention.check.interval.ms=500",
                "auto.create.topics.enable=false",
                ""));
            int formatted = kafka.tools.StorageTool.execute(new String[] {
                "format", "--standalone", "-t", "cmV2c3luYy10ZXN0cy0wMA", "-c", properties.toString(),
                "--add-scram", "SCRAM-SHA-256=[name=ann,password=hunter2]"}, System.err);
            if (formatted != 0) {
                System.exit(formatted);
            }
        }
        String[] ports = Files.readString(home.resolve("ports")).split(" ");
        Thread broker = new Thread(() -> kafka.Kafka.main(new String[] {properties.toString()}));
        broker.setDaemon(true);
        broker.start();
        waitFor(Integer.parseInt(ports[0]));
        System.out.println("sasl " + ports[1]);
        System.out.println("port " + ports[0]);
        while (System.in.read() >= 0) {
            // Nothing is ever said here; what matters is the end.
        }
        if (arguments.length == 1 || !arguments[1].equals("keep")) {
            // Nothing of it is wanted any more.
            remove(home);
            Runtime.getRuntime().halt(0);
        }
        System.exit(0);
    }

    private static int free() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static void waitFor(int port) throws InterruptedException {
        for (;;) {
            try {
                new java.net.Socket(InetAddress.getLoopbackAddress(), port).close();
                return;
            } catch (IOException notYet) {
                Thread.sleep(50);
            }
        }
    }

    private static void remove(Path folder) throws IOException {
        List<Path> all;
        try (var paths = Files.walk(folder)) {
            all = paths.sorted(Comparator.reverseOrder()).toList();
        } catch (java.io.UncheckedIOException moving) {
            all = List.of();
        }
        for (Path path : all) {
            try {
                Files.deleteIfExists(path);
            } catch (IOException moving) {
                // The broker still writes there; what is left goes with the temporary folder.
            }
        }
    }
}
