import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** Threads that the virtual machine stops at safepoints (faults of its own) and collects garbage for, checking a sum. It runs until its
 * input ends. */
public class Safepoints {
    static volatile boolean stop;

    static long sum(int seed) {
        List<long[]> garbage = new ArrayList<>();
        long total = 0;
        for (int i = 0; i < 2000; i++) {
            long[] block = new long[64];
            block[i % 64] = seed + i;
            garbage.add(block);
            total = total * 31 + block[i % 64];
        }
        return total;
    }

    public static void main(String[] arguments) throws Exception {
        long expected = sum(7);
        AtomicLong rounds = new AtomicLong(), wrong = new AtomicLong();
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                while (!stop) {
                    if (sum(7) != expected) wrong.incrementAndGet();
                    rounds.incrementAndGet();
                }
            });
            threads[i].start();
        }
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) { }
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("rounds=" + rounds + " failures=" + wrong);
        System.exit(wrong.get() != 0 || rounds.get() == 0 ? 1 : 0);
    }
}
