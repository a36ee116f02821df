// Rust: each thread works on its chunk of one vector of 96 MiB. Planted: the main thread fills the vector (with the
// argument "fixed": each thread makes a vector of its own).
const THREADS: usize = 4;
const STEP: usize = 8;
const ROUNDS: usize = 12;
const LENGTH: usize = 96 << 17;

fn new_data(count: usize) -> Vec<f64> {
    (0..count).map(|i| i as f64).collect()
}

fn work(data: &mut [f64]) -> f64 {
    for round in 0..ROUNDS {
        data.iter_mut().step_by(STEP).for_each(|value| *value = *value * 0.5 + round as f64);
    }
    data[data.len() / 2]
}

fn main() {
    let fixed = std::env::args().nth(1).as_deref() == Some("fixed");
    let mut all = if fixed { Vec::new() } else { new_data(LENGTH) };
    let mut chunks = all.chunks_mut(LENGTH / THREADS);
    let sum: f64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let chunk = chunks.next();
                scope.spawn(move || match chunk {
                    Some(chunk) => work(chunk),
                    None => work(&mut new_data(LENGTH / THREADS)),
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{sum}");
}
