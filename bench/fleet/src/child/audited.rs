//! A process whose admissions are audited.

use std::{
    collections::VecDeque,
    fs::File,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use limiter_core::{Cost, Receipt};
use limiter_redis::RedisLimiter;
use limiter_rig::audit::unix_micros;

use super::{Contender, Counts, Job, TASKS};

/// One in so many checks asks for a receipt.
const REFUNDED: u64 = 16;

/// How many receipts a task holds before it refunds the oldest.
const RECEIPTS: usize = 4;

/// Checks one key at full speed for one second in four, so that the burst is there again, and refunds one admission in
/// 16. Writes the others to the job's log.
pub(super) async fn run(job: &Job, contender: &Arc<Contender>) -> Result<Vec<Counts>> {
    let end = Instant::now() + Duration::from_secs_f64(job.seconds);
    let log = File::create(job.log.as_ref().context("a log")?)?;
    let log = Arc::new(log);
    // Leases answer at once, so one task is enough. Calls overlap.
    let tasks = if job.contender == "leases" { 1 } else { TASKS };
    let tasks = (0..tasks).map(|_| {
        let (contender, log) = (Arc::clone(contender), Arc::clone(&log));
        tokio::spawn(async move { task(&contender, end, Log::new(log)).await })
    });
    let mut parts = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        parts.push(task.await??);
    }
    Ok(parts)
}

async fn task(contender: &Contender, end: Instant, mut log: Log) -> Result<Counts> {
    let Contender::Limiter(limiter) = contender else {
        bail!("a peer is not audited");
    };
    let (mut counts, mut held) = (Counts::default(), VecDeque::new());
    while Instant::now() < end {
        if !(unix_micros() / 1_000_000).is_multiple_of(4) {
            while let Some(oldest) = held.pop_front() {
                refund(limiter, oldest, &mut log).await?;
            }
            log.flush()?;
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        for number in 0..256 {
            let begun = unix_micros();
            let admitted = if number % REFUNDED == 0 {
                let reserved = limiter.reserve("tenant-0", Cost::ONE, Duration::ZERO).await.ok();
                let ended = unix_micros();
                let admitted = reserved.as_ref().map(|reserved| reserved.decision().is_admitted());
                if let Some(receipt) = reserved.and_then(|reserved| reserved.into_receipt()) {
                    held.push_back((receipt, begun, ended));
                }
                admitted
            } else {
                let decision = limiter.check("tenant-0").await.ok();
                let admitted = decision.map(|decision| decision.is_admitted());
                if admitted == Some(true) {
                    log.add(begun, unix_micros())?;
                }
                admitted
            };
            counts.add(admitted);
            if held.len() > RECEIPTS
                && let Some(oldest) = held.pop_front()
            {
                refund(limiter, oldest, &mut log).await?;
            }
        }
        log.flush()?;
        tokio::task::yield_now().await;
    }
    Ok(counts)
}

/// Refunds an admission. One that stays charged counts.
async fn refund(
    limiter: &RedisLimiter,
    (receipt, begun, ended): (Receipt, u64, u64),
    log: &mut Log,
) -> Result<()> {
    match limiter.refund(receipt).await {
        Ok(0) => log.add(begun, ended),
        // With an error, the permit may or may not be back.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// When admissions began and ended. What a killed process has not written is not audited.
struct Log {
    file: Arc<File>,
    lines: Vec<u8>,
}

impl Log {
    const fn new(file: Arc<File>) -> Self {
        Self { file, lines: Vec::new() }
    }

    fn add(&mut self, begun: u64, ended: u64) -> Result<()> {
        self.lines.extend(begun.to_le_bytes().into_iter().chain(ended.to_le_bytes()));
        if self.lines.len() >= 512 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        (&*self.file).write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}
