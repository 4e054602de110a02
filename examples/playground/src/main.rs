//! A page that shows each algorithm at work.
//!
//! ```console
//! $ cargo run -p example-playground
//! listening on http://127.0.0.1:3000, try:
//!   open http://127.0.0.1:3000/ in a browser
//!   for i in $(seq 12); do curl -si 'http://127.0.0.1:3000/limited?subject=alice' | head -1; done
//! ```
//!
//! `PORT` sets the port, 3000 by default; 0 chooses a free one.
//!
//! The page sends real requests through the layer. Choose an algorithm, a quota and the traffic, and see
//! what is admitted and refused, the header fields of each response, and who is refused most. The limit
//! changes while requests are served, and an invalid one is answered 400 with the reason.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /limited?subject=alice` | is limited by subject |
//! | `GET /queued?subject=alice` | is limited by the same limit, and waits instead of being refused |
//! | `POST /playground` | replaces the limit by the text in the body, such as `10/s burst 20` |
//! | `GET /playground?subject=alice` | returns the limit, the counts under it and the subject's usage |
//!
//! Clients choose their subject here, so that one browser can play many users. A real service limits by
//! something that clients can't choose, such as their address. [`top`] counts who is refused most with 16
//! counters, by the algorithm *space-saving*, and reports by how much each count may be too high.

mod page;
mod playground;
mod subject;
mod top;

use std::env;

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let app = Router::new().route("/", get(page::page)).merge(playground::routes()?);
    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  open http://{address}/ in a browser");
    println!(
        "  for i in $(seq 12); do curl -si 'http://{address}/limited?subject=alice' | head -1; done"
    );
    Ok(axum::serve(listener, app).await?)
}
