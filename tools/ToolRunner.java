import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/**
 * Runs the main methods of Kafka's command line tools one after another, so that only the first one
 * pays for the start of a virtual machine.
 *
 * <p>A request on standard input is a count and that many strings: the class, then its arguments. A
 * response on standard output is the exit status; standard output and standard error, each with its
 * length; and 1 if the next request may follow. A tool that leaves threads behind ends this program after the response, because a process
 * of its own would have ended them.
 */
public class ToolRunner {
    /** Unwinds the stack of a tool that calls Kafka's {@code Exit}, which would end the virtual machine. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    /** Takes bytes until the tool exits: later ones would not have been written by a process. */
    private static final class Capture extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private boolean open = true;

        @Override
        public synchronized void write(int value) {
            if (open) {
                bytes.write(value);
            }
        }

        @Override
        public synchronized void write(byte[] data, int offset, int length) {
            if (open) {
                bytes.write(data, offset, length);
            }
        }

        synchronized void close(boolean closed) {
            open = !closed;
        }

        synchronized byte[] take() {
            byte[] taken = bytes.toByteArray();
            bytes.reset();
            open = true;
            return taken;
        }
    }

    private static final Capture OUTPUT = new Capture();
    private static final Capture ERRORS = new Capture();
    private static volatile Integer status;

    /** Kafka 4.4 moved {@code Exit} to another package, so the class is found by name. */
    private static void replaceExit() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object replacement =
                Proxy.newProxyInstance(
                        procedure.getClassLoader(),
                        new Class<?>[] {procedure},
                        (proxy, method, values) -> {
                            exit((Integer) values[0]);
                            return null;
                        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, replacement);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, replacement);
    }

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream responses = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        // Scala's Console keeps the streams that it finds when it is loaded: they are set once.
        System.setOut(new PrintStream(OUTPUT, true));
        System.setErr(new PrintStream(ERRORS, true));
        replaceExit();
        boolean clean = true;
        while (clean) {
            String[] request;
            try {
                request = new String[requests.readInt()];
            } catch (EOFException end) {
                break;
            }
            for (int index = 0; index < request.length; index++) {
                request[index] = requests.readUTF();
            }
            clean = run(request);
            System.out.flush();
            System.err.flush();
            responses.writeInt(status == null ? 0 : status);
            for (Capture capture : new Capture[] {OUTPUT, ERRORS}) {
                byte[] data = capture.take();
                responses.writeInt(data.length);
                responses.write(data);
            }
            responses.writeInt(clean ? 1 : 0);
            responses.flush();
        }
        // Not System.exit: the shutdown hooks of tools may wait for what never comes.
        Runtime.getRuntime().halt(0);
    }

    private static void exit(int code) {
        synchronized (ToolRunner.class) {
            if (status == null) {
                status = code;
                System.out.flush();
                System.err.flush();
                OUTPUT.close(true);
                ERRORS.close(true);
            }
        }
        throw new Exited();
    }

    /** Runs one tool in a group of threads of its own; whether it left no thread behind. */
    private static boolean run(String[] request) throws InterruptedException {
        status = null;
        ThreadGroup group = new ThreadGroup(request[0]);
        Thread tool = new Thread(group, () -> call(request), "main");
        tool.start();
        tool.join();
        for (int round = 0; round < 20 && group.activeCount() > 0; round++) {
            Thread.sleep(10);
        }
        return group.activeCount() == 0;
    }

    private static void call(String[] request) {
        String[] arguments = new String[request.length - 1];
        System.arraycopy(request, 1, arguments, 0, arguments.length);
        try {
            Class.forName(request[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                failed(error.getCause());
            }
        } catch (ReflectiveOperationException error) {
            failed(error);
        }
    }

    private static synchronized void failed(Throwable error) {
        if (status == null) {
            System.err.print("Exception in thread \"main\" ");
            error.printStackTrace();
            status = 1;
        }
    }
}
