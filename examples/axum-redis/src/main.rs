//! An axum service that limits customers by their tiers, through Redis, and reloads its limits.
//!
//! ```console
//! $ cargo run -p example-axum-redis -- examples/axum-redis/limits.toml
//! ```
//!
//! The file has the address of the Redis or Valkey server. `PORT` sets the port, 3000 by default; 0
//! chooses a free one. In another terminal:
//!
//! ```console
//! $ curl -si http://127.0.0.1:3000/ -H 'x-api-key: bob-1'
//! HTTP/1.1 200 OK
//! ratelimit-policy: "basic";q=10;w=60
//! ratelimit: "basic";r=9;t=54
//!
//! hello bob
//! ```
//!
//! Now change `basic` in the file to `100/min`: within a second bob has 100 permits minus what he has used. With
//! `enforced_percent = 0` nothing is refused.
//! Any number of processes with the same file share its limits.

mod customers;

use std::{env, fs, net::SocketAddr, slice, thread, time::Duration};

use anyhow::{Context, Error, Result};
use axum::{Router, middleware, routing::get};
use customers::{Customer, authenticate, hello};
use limiter_core::Policies;
use limiter_redis::RedisSettings;
use limiter_tower::{
    Answers, ClientIp, RateLimitLayer, Reload, Rule,
    key::{ExtensionKey, MaybeKey},
    plan::Plans,
    refusal::problem_json,
    rule::Mode,
};
use serde::Deserialize;
use tokio::net::TcpListener;

/// The file of settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    redis: RedisSettings,
    rollout: Rollout,
    limits: Policies,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollout {
    enforced_percent: u8,
}

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();

    let path = env::args().nth(1).context("usage: example-axum-redis FILE")?;
    let text = fs::read_to_string(&path).context(path.clone())?;
    let Settings { redis, rollout, limits } = toml::from_str(&text).context(path.clone())?;

    let api = limits.get("api").context("the file has no [limits.api]")?;
    let limiter = redis.connect(api.clone()).await?;
    let plans = Plans::new(limiter.clone(), limits.tiers("api").cloned())?;
    let key = ExtensionKey::new(|customer: &Customer| customer.name.into()).or(ClientIp::peer());
    let rule = Rule::new(limiter, key)
        .with_mode(Mode::sample(rollout.enforced_percent)?)
        .plan(plans.by_extension(|customer: &Customer| customer.tier, "api")?);
    let layer =
        RateLimitLayer::all([rule.clone()]).answers(Answers::new().refuse_with(problem_json));
    thread::spawn(move || watch(&path, text, &rule, &plans));

    // The layer that is added last is the outermost: customers are known before they are limited.
    let app = Router::new().route("/", get(hello)).layer(layer);
    let app = app.layer(middleware::from_fn(authenticate));
    // `PORT` sets another port, and 0 chooses a free one.
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await;
    let listener = listener.with_context(|| format!("PORT is {port:?}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try:");
    println!("  curl -si http://{address}/ -H 'x-api-key: bob-1'");
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}

/// Applies each change of the file within a second. Replace the file by a rename, such as `mv`, so that
/// no half of it is read.
fn watch(path: &str, text: String, rule: &Rule, plans: &Plans) {
    let mut last = Ok(text);
    loop {
        thread::sleep(Duration::from_secs(1));
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        if text != last {
            match text.clone().map_err(Error::msg).and_then(|text| reload(&text, rule, plans)) {
                Ok(()) => tracing::info!("{path}: reloaded"),
                Err(why) => tracing::error!("{path} is invalid, so the old limits stay: {why:#}"),
            }
            last = text;
        }
    }
}

/// Enforces the limits in `text` for as many keys as it says. Customers keep what they have used.
fn reload(text: &str, rule: &Rule, plans: &Plans) -> Result<()> {
    let Settings { rollout, limits, .. } = toml::from_str(text)?;
    let mode = Mode::sample(rollout.enforced_percent)?;
    let api = limits.get("api").context("the file has no [limits.api]")?;
    Reload::new()
        .rules(slice::from_ref(rule), [api.clone()])?
        .plans(plans, limits.tiers("api").cloned())?
        .apply();
    rule.set_mode(mode);
    Ok(())
}
