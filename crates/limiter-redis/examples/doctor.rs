//! Checks a server before it keeps limits, and says what to change:
//!
//! ```text
//! cargo run -p limiter-redis --features tls --example doctor -- redis://127.0.0.1:6379 [PREFIX]
//! ```
//!
//! It ends with 1 if limits would not hold, or checks fail.

use std::{env, process::ExitCode};

use limiter_core::Error;
use limiter_redis::{Builder, Connection, connect, doctor_under};

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let mut arguments = env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: doctor URL [PREFIX], such as doctor redis://127.0.0.1:6379");
        return Ok(ExitCode::FAILURE);
    };
    let default = || Builder::<Connection>::DEFAULT_PREFIX.to_owned();
    let prefix = arguments.next().unwrap_or_else(default);
    let report = doctor_under(&connect(&url).await?, &prefix).await;
    print!("{report}");
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
