// Java: each thread works on its own array of 24 MiB. Planted: the main thread makes and fills all arrays (with the
// argument "fixed": each thread makes its own; without thread-local buffers in between, since arrays are large).
public class Slices {
    static final int THREADS = 4, STEP = 8, ROUNDS = 12, LENGTH = 24 << 17;

    static double[] newData() {
        double[] data = new double[LENGTH];
        for (int i = 0; i < LENGTH; i += STEP) data[i] = i;
        return data;
    }

    static double work(double[] data) {
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < LENGTH; i += STEP) data[i] = data[i] * 0.5 + round;
        return data[LENGTH / 2];
    }

    public static void main(String[] arguments) throws InterruptedException {
        boolean fixed = arguments.length > 0 && arguments[0].equals("fixed");
        double[][] all = new double[THREADS][];
        double[] results = new double[THREADS];
        for (int i = 0; i < THREADS && !fixed; i++) all[i] = newData();
        Thread[] threads = new Thread[THREADS];
        for (int i = 0; i < THREADS; i++) {
            int me = i;
            threads[i] = new Thread(() -> {
                if (fixed) all[me] = newData();
                results[me] = work(all[me]);
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(results[1]);
    }
}
