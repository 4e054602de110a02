//! Runs simulations until the time is over, or one seed: see `cargo xtask simulate`.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seed: u64 = args[1].parse().unwrap();
    let n: u64 = args[2].parse().unwrap();
    let wrong = args.get(3).map(|w| limiter_sim::Wrong::ALL[w.parse::<usize>().unwrap()]);
    let begin = std::time::Instant::now();
    let (mut sim, mut dec, mut bad) = (0, 0, 0);
    for seed in seed..seed + n {
        let r = limiter_sim::run(&limiter_sim::Settings { seed, wrong, ..Default::default() });
        sim += r.simulated;
        dec += r.decisions;
        if !r.violations.is_empty() {
            bad += 1;
            println!("{r}");
            if n > 1 && bad > 3 {
                break;
            }
        }
        if n == 1 {
            println!("{r:?}");
        }
    }
    let s = begin.elapsed().as_secs_f64();
    println!(
        "{bad} bad; {} decisions {} sim s; {} dec/s {} sim/s",
        dec,
        sim / 1_000_000,
        dec as f64 / s,
        sim as f64 / 1e6 / s
    );
}
