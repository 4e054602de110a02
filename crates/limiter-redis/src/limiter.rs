//! The limiter for many processes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_core::{
    Answer, Check, Cost, Error, ErrorKind, Key, Kind, Limiter, Policy, Receipt, Reservation, Usage,
};

use crate::{
    client::{RunError, ScriptCall, ScriptClient},
    connection::Connection,
    keys::Keys,
    script::{self, Script},
    scripts::gcra::Gcra,
};

/// A limiter whose state lives in Redis or Valkey, shared by all processes that use the same
/// server, prefix and policy name.
///
/// It is the exact algorithm of the limiter in memory, in microseconds of the server's clock. A
/// check is one round trip. A key holds one short string with an expiry, gone once the key has
/// recovered.
///
/// Errors have the kinds [`ErrorKind::Unavailable`] (nothing was charged),
/// [`ErrorKind::Undetermined`] (it may have been) and [`ErrorKind::Unexpected`] (a foreign value at
/// the key, or a bug). Checks are awaited on a Tokio runtime. The other operations of a [`Limiter`]
/// are not there yet: their answers are errors of the kind [`ErrorKind::InvalidSetting`].
#[derive(Clone, Debug)]
pub struct RedisLimiter<C = Connection> {
    policy: Policy,
    algorithm: Gcra,
    script: &'static Script,
    keys: Keys,
    client: C,
    deadline: Duration,
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// How long a check may take unless [`RedisLimiter::with_deadline`] says otherwise.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);

    /// The prefix of all keys unless [`RedisLimiter::with_prefix`] says otherwise.
    pub const DEFAULT_PREFIX: &str = "limiter";

    const MAX_DEADLINE: Duration = Duration::from_secs(60);

    /// Returns a limiter that applies `policy` by the server of `client`.
    ///
    /// Nothing is sent until the first check.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota can't be counted in microseconds and doubles: see
    /// [`Meter::new`](limiter_core::algorithm::Meter::new).
    ///
    /// [`ErrorKind::InvalidSetting`] if the policy is another than one limit by GCRA, a token
    /// bucket or a leaky bucket without a queue: these are what there is a script for.
    pub fn new(client: C, policy: Policy) -> Result<Self, Error> {
        let quota = match (policy.limits(), policy.tiers()) {
            ([limit], []) if has_script(limit.kind()) => limit.quota(),
            _ => {
                let message = format!(
                    "the policy {:?}: through Redis there is only one limit, without tiers, by \
                     GCRA, a token bucket or a leaky bucket without a queue",
                    policy.name()
                );
                return Err(Error::new(ErrorKind::InvalidSetting, message));
            }
        };
        Ok(Self {
            algorithm: Gcra::new(quota)?,
            script: &script::GCRA,
            keys: Keys::new(Self::DEFAULT_PREFIX, policy.name())?,
            policy,
            client,
            deadline: Self::DEFAULT_DEADLINE,
        })
    }

    /// Sets how long a check may take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it is 1 ms to 60 s.
    pub fn with_deadline(mut self, deadline: Duration) -> Result<Self, Error> {
        if !(Duration::from_millis(1)..=Self::MAX_DEADLINE).contains(&deadline) {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("a deadline of {deadline:?}: use 1ms to {:?}", Self::MAX_DEADLINE),
            ));
        }
        self.deadline = deadline;
        Ok(self)
    }

    /// Sets what the names of all keys begin with.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it has 1 to 64 bytes.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, Error> {
        self.keys = Keys::new(prefix, self.policy.name())?;
        Ok(self)
    }

    /// Takes `cost` permits of `key` if they are there now: [`Limiter::check`] by another name, for
    /// keys of any type.
    ///
    /// ```no_run
    /// # async fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// use limiter_core::Cost;
    ///
    /// if !limiter.try_acquire("alice", Cost::ONE).await?.is_admitted() {
    ///     // Too many attempts.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire<'a>(&self, key: impl Into<Key<'a>>, cost: Cost) -> Check {
        self.check(&key.into(), cost)
    }

    /// Replaces the script, by one that tells another time.
    #[cfg(test)]
    pub(crate) fn with_script(mut self, script: &'static Script) -> Self {
        self.script = script;
        self
    }

    #[cfg(test)]
    pub(crate) fn store_key(&self, key: &Key<'_>) -> Vec<u8> {
        self.keys.of(key)
    }
}

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
        let call = ScriptCall {
            script: self.script.by_digest(),
            key: self.keys.of(key),
            // Below 2^53.
            arguments: self.algorithm.arguments(cost).map(u64::cast_signed).into(),
            read_only: false,
        };
        let Self { algorithm, script, deadline, .. } = *self;
        let (client, policy) = (self.client.clone(), self.policy.clone());
        Check::pending(async move {
            match run(&client, script, call, deadline).await {
                Ok(reply) => Ok(algorithm.decision(reply, cost)),
                Err(error) => {
                    let message = format!("policy {:?}: {error}", policy.name());
                    Err(Error::new(error.kind(), message).with_source(error))
                }
            }
        })
    }

    fn peek(&self, _: &Key<'_>) -> Answer<Usage> {
        Answer::ready(Err(self.only_checks()))
    }

    fn reserve(&self, _: &Key<'_>, _: Cost, _: Duration) -> Answer<Reservation> {
        Answer::ready(Err(self.only_checks()))
    }

    fn refund(&self, _: Receipt) -> Answer<()> {
        Answer::ready(Err(self.only_checks()))
    }

    fn reset(&self, _: &Key<'_>) -> Answer<()> {
        Answer::ready(Err(self.only_checks()))
    }

    fn replace(&self, _: Policy) -> Result<(), Error> {
        Err(self.only_checks())
    }

    fn tier(&self, _: &str) -> Result<Arc<dyn Limiter>, Error> {
        Err(self.only_checks())
    }
}

impl<C> RedisLimiter<C> {
    fn only_checks(&self) -> Error {
        let message =
            format!("the policy {:?}: through Redis there are only checks", self.policy.name());
        Error::new(ErrorKind::InvalidSetting, message)
    }
}

const fn has_script(kind: Kind) -> bool {
    matches!(kind, Kind::Gcra | Kind::TokenBucket | Kind::LeakyBucket)
}

/// Runs the script by its digest, and once by its source where the server doesn't have it, all
/// within the deadline.
async fn run<C: ScriptClient>(
    client: &C,
    script: &'static Script,
    call: ScriptCall,
    deadline: Duration,
) -> Result<i64, Error> {
    let start = Instant::now();
    let by_source = || ScriptCall { script: script.by_source(), ..call.clone() };
    let result = match client.run(call.clone(), deadline).await {
        Err(RunError::NotCached) => match deadline.saturating_sub(start.elapsed()) {
            Duration::ZERO => Err(RunError::NotCached),
            left => client.run(by_source(), left).await,
        },
        result => result,
    };
    match result {
        Ok(reply) => match reply[..] {
            [debt] => Ok(debt),
            _ => {
                let message = format!("the script replied with {reply:?}: not one integer");
                Err(Error::new(ErrorKind::Unexpected, message))
            }
        },
        Err(RunError::Failed(error)) => Err(error),
        Err(RunError::NotCached) => Err(Error::new(
            ErrorKind::Unavailable,
            "the server did not have the script, and there was no time left to send it",
        )),
    }
}
