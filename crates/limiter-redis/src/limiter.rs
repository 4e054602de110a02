//! The limiter for many processes.

use std::{
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use limiter_core::{
    Answer, Check, Cost, Error, ErrorKind, Key, Limiter, Policy, Receipt, Reservation, Usage,
    WaitingLimiter,
};

use crate::{
    acquire,
    call::call,
    client::{ScriptCall, ScriptClient},
    connection::Connection,
    keys::Keys,
    script::Script,
    scripts::{Charged, PRELUDE, Plan},
};

/// A limiter whose state lives in Redis or Valkey, shared by all processes that use the same
/// server, prefix and policy name.
///
/// It is the exact algorithm of the limiter in memory, in microseconds of the server's clock. Each
/// operation is one round trip. A key holds one value with an expiry, gone once the key has
/// recovered. Clones are one limiter.
///
/// Errors have the kinds [`ErrorKind::Unavailable`] (nothing was charged),
/// [`ErrorKind::Undetermined`] (it may have been) and [`ErrorKind::Unexpected`] (a foreign value at
/// the key, or a bug). Answers are awaited on a Tokio runtime.
pub struct RedisLimiter<C = Connection> {
    shared: Arc<Shared<C>>,
    /// Zero is the policy itself.
    tier: usize,
}

struct Shared<C> {
    /// Tells this limiter's receipts from others'.
    id: u64,
    client: C,
    keys: Keys,
    deadline: Duration,
    /// Sets the scripts' `now`.
    prelude: String,
    current: RwLock<Current>,
}

#[derive(Clone)]
struct Current {
    policy: Policy,
    plan: Arc<Plan>,
}

/// What a receipt tells.
struct Token {
    limiter: u64,
    key: Vec<u8>,
    tier: usize,
    charged: Charged,
    /// By which it was charged: by another, its marks mean nothing.
    plan: Arc<Plan>,
}

impl<C: ScriptClient> RedisLimiter<C> {
    /// How long an answer may take unless [`RedisLimiter::with_deadline`] says otherwise.
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
    /// [`ErrorKind::InvalidQuota`] if a quota can't be counted in microseconds and doubles: see
    /// [`Meter::new`](limiter_core::algorithm::Meter::new). A sliding counter counts up to
    /// 94,906,265 permits, all others up to 2^52.
    ///
    /// [`ErrorKind::InvalidSetting`] if one of several limits, or one with tiers, has sub-windows of
    /// more than 128 slots or a log of more than 128 permits.
    pub fn new(client: C, policy: Policy) -> Result<Self, Error> {
        let keys = Keys::new(Self::DEFAULT_PREFIX, policy.name())?;
        let plan = Arc::new(Plan::new(PRELUDE, &policy)?);
        Ok(Self::of(Shared {
            id: next_id(),
            client,
            keys,
            deadline: Self::DEFAULT_DEADLINE,
            prelude: PRELUDE.to_owned(),
            current: RwLock::new(Current { policy, plan }),
        }))
    }

    fn of(shared: Shared<C>) -> Self {
        Self { shared: Arc::new(shared), tier: 0 }
    }

    /// Returns the limiter with what `change` does to a copy of its settings.
    fn with(self, change: impl FnOnce(&mut Shared<C>) -> Result<(), Error>) -> Result<Self, Error> {
        let Shared { client, keys, deadline, prelude, .. } = &*self.shared;
        let mut shared = Shared {
            id: next_id(),
            client: client.clone(),
            keys: keys.clone(),
            deadline: *deadline,
            prelude: prelude.clone(),
            current: RwLock::new(self.current()),
        };
        change(&mut shared)?;
        Ok(Self { shared: Arc::new(shared), tier: self.tier })
    }

    /// Sets how long an answer may take.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it is 1 ms to 60 s.
    pub fn with_deadline(self, deadline: Duration) -> Result<Self, Error> {
        if !(Duration::from_millis(1)..=Self::MAX_DEADLINE).contains(&deadline) {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("a deadline of {deadline:?}: use 1ms to {:?}", Self::MAX_DEADLINE),
            ));
        }
        self.with(|shared| {
            shared.deadline = deadline;
            Ok(())
        })
    }

    /// Sets what the names of all keys begin with.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless it has 1 to 64 bytes.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, Error> {
        let policy = self.current().policy;
        self.with(|shared| {
            shared.keys = Keys::new(prefix, policy.name())?;
            Ok(())
        })
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

    /// Returns a call of one of the plan's scripts, and its script.
    fn call(&self, key: Vec<u8>, (script, arguments): (&Script, Vec<i64>)) -> (Script, ScriptCall) {
        let call = ScriptCall { script: script.by_digest(), key, arguments, read_only: false };
        (script.clone(), call)
    }

    /// Sends a call, and returns what `read` makes of the reply.
    async fn send<T>(
        self,
        (script, call_of): (Script, ScriptCall),
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Result<T, Error> {
        let reply = call(&self.shared.client, &script, call_of, self.shared.deadline).await;
        let result = reply.and_then(|reply| {
            read(&reply).ok_or_else(|| {
                let message = format!("the script replied with {reply:?}, which has no meaning");
                Error::new(ErrorKind::Unexpected, message)
            })
        });
        result.map_err(|error| {
            let message = format!("policy {:?}: {error}", self.current().policy.name());
            Error::new(error.kind(), message).with_source(error)
        })
    }

    fn current(&self) -> Current {
        self.shared.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.shared.current.read().unwrap_or_else(PoisonError::into_inner).plan)
    }

    /// Replaces the prelude, by one that tells another time.
    #[cfg(test)]
    pub(crate) fn with_prelude(self, prelude: &str) -> Self {
        let changed = self.with(|shared| {
            shared.prelude = prelude.to_owned();
            let current = shared.current.get_mut().unwrap_or_else(PoisonError::into_inner);
            current.plan = Arc::new(Plan::new(prelude, &current.policy)?);
            Ok(())
        });
        changed.expect("the policy was valid before")
    }

    #[cfg(test)]
    pub(crate) fn store_key(&self, key: &Key<'_>) -> Vec<u8> {
        self.shared.keys.of(key)
    }
}

impl<C: ScriptClient> Limiter for RedisLimiter<C> {
    fn policy(&self) -> Policy {
        let policy = self.current().policy;
        let tier = self.tier.checked_sub(1).and_then(|index| policy.tiers().get(index).cloned());
        tier.unwrap_or(policy)
    }

    fn check(&self, key: &Key<'_>, cost: Cost) -> Check {
        let plan = self.plan();
        let (this, tier) = (self.clone(), self.tier);
        let call = self.call(self.shared.keys.of(key), plan.check(tier, cost));
        Answer::pending(async move {
            let taken = this.send(call, |reply| plan.taken(tier, reply, cost)).await?;
            Ok(taken.decision)
        })
    }

    fn peek(&self, key: &Key<'_>) -> Answer<Usage> {
        let plan = self.plan();
        let (this, tier) = (self.clone(), self.tier);
        let (script, call) = self.call(self.shared.keys.of(key), plan.peek(tier));
        let call = ScriptCall { read_only: true, ..call };
        Answer::pending(
            async move { this.send((script, call), |reply| plan.peeked(tier, reply)).await },
        )
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> Answer<Reservation> {
        let plan = self.plan();
        let (this, tier) = (self.clone(), self.tier);
        let key = self.shared.keys.of(key);
        let call = self.call(key.clone(), plan.take(tier, cost, within));
        Answer::pending(async move {
            let limiter = this.shared.id;
            let taken = this.send(call, |reply| plan.taken(tier, reply, cost)).await?;
            let Some(charged) = taken.charged else {
                return Ok(Reservation::refused(taken.decision));
            };
            let delay = charged.delay();
            let token = Token { limiter, key, tier, charged, plan };
            let receipt = Receipt::of_store(token, cost.get());
            Ok(Reservation::admitted(taken.decision, delay, receipt))
        })
    }

    fn refund(&self, receipt: Receipt) -> Answer<()> {
        let plan = self.plan();
        let token = receipt
            .token::<Token>()
            .filter(|token| token.limiter == self.shared.id && token.plan.has_quotas_of(&plan));
        let Some(token) = token else {
            return Answer::ready(Ok(()));
        };
        let call = plan.refund(token.tier, &token.charged, receipt.permits());
        let call = self.call(token.key.clone(), call);
        let this = self.clone();
        Answer::pending(async move { this.send(call, |reply| reply.first().map(drop)).await })
    }

    fn reset(&self, key: &Key<'_>) -> Answer<()> {
        let plan = self.plan();
        let call = self.call(self.shared.keys.of(key), plan.reset(self.tier));
        let this = self.clone();
        Answer::pending(async move { this.send(call, |reply| reply.first().map(drop)).await })
    }

    fn replace(&self, policy: Policy) -> Result<(), Error> {
        let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
        let before = &current.policy;
        if before.name() != policy.name() {
            let message = format!(
                "the policy {:?} for {:?}: the keys in Redis have the policy's name, so it has to \
                 stay",
                policy.name(),
                before.name()
            );
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let policy = before.replaced_by(policy)?;
        let plan = Plan::new(&self.shared.prelude, &policy)?;
        if !plan.has_values_of(&current.plan) {
            let message = format!(
                "the policy {:?}: the tier that is added needs another kind of value in Redis than \
                 the entries of one limit alone",
                policy.name()
            );
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        *current = Current { policy, plan: Arc::new(plan) };
        Ok(())
    }

    fn tier(&self, name: &str) -> Result<Arc<dyn Limiter>, Error> {
        let policy = self.current().policy;
        let index = policy.tiers().iter().position(|tier| tier.name() == name);
        let Some(index) = index else {
            return Err(Error::new(
                ErrorKind::InvalidName,
                format!("the policy {:?} has no tier {name:?}", policy.name()),
            ));
        };
        Ok(Arc::new(Self { shared: Arc::clone(&self.shared), tier: index + 1 }))
    }
}

impl<C: ScriptClient> WaitingLimiter for RedisLimiter<C> {
    fn acquire(&self, key: &Key<'_>, cost: Cost, within: Option<Duration>) -> Answer<Reservation> {
        let reserved = self.reserve(key, cost, within.unwrap_or(Duration::MAX));
        Answer::pending(acquire::when_due(self.clone(), reserved))
    }
}

fn next_id() -> u64 {
    static LIMITERS: AtomicU64 = AtomicU64::new(0);
    LIMITERS.fetch_add(1, Ordering::Relaxed)
}

impl<C> Clone for RedisLimiter<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), tier: self.tier }
    }
}

impl<C: fmt::Debug> fmt::Debug for RedisLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.shared.current.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("RedisLimiter")
            .field("policy", &current.policy)
            .field("tier", &self.tier)
            .field("client", &self.shared.client)
            .field("deadline", &self.shared.deadline)
            .finish_non_exhaustive()
    }
}
