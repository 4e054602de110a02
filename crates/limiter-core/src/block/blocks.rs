//! Counts strikes, and refuses keys.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use super::{Block, Policies};
use crate::{
    Cost, Decision, Demand, Error, Key, Limiter, LimiterFuture, Policy, Receipt, Source, decide,
};

/// Counts strikes of keys, and refuses keys for a time after too many of them.
///
#[doc = include_str!("../../docs/items/blocks.md")]
///
/// A clone is cheap and has the same states.
///
/// # States
///
/// They are in three [siblings](Limiter::sibling) of the limiter, so they are in the same store, have its settings, and
/// are shared by all processes that share it. If the limiter's policy is named `login`:
///
/// | sibling | state |
/// |---|---|
/// | `login-strikes` | the strikes that count, a log |
/// | `login-levels` | how many blocks are not forgotten, by GCRA; only if blocks double |
/// | `login-block` | the end of the block, by GCRA |
///
/// In memory each has room for 10,000 keys unless [`Block::capacity`] sets another number: the three take about 260 bytes
/// for each of them, and a key that is struck about 100 bytes, and 16 to 32 for each strike that counts. In a store they
/// take at most three keys of a subject, each with an expiry.
///
/// Two `Blocks` of one limiter have the same states in a store that processes share, and different ones in memory. So
/// make them once, with the limiter, and not for each request or tenant.
///
/// # Guarantees
///
/// - Exactly one of the strikes that arrive at the same time starts the block, whatever thread or process it is in.
/// - A strike while the key is blocked is not counted, and does not prolong the block.
/// - A block ends when [`strike`](Self::strike) says. Then the key has no strikes, except those that came while the block
///   was being written, in a store that can't decide on a strike and a block [in one step](crate::Store::decide_together).
/// - From the strike on that starts a block the key is refused. Until the block is written, it is refused because its
///   strikes are full, and the wait is the time until the oldest one no longer counts, which may be shorter or longer than
///   the block. A process that caches such a refusal repeats it, for at most a second through Redis.
/// - If a store fails while a block is being written, the key is refused until its oldest strike no longer counts, and may
///   not be blocked. The next strike then starts a block.
/// - A strike that has no state, because the [table is full](Source::FullTable), never starts a block. Where a process decides by its [share](Source::Local) of each quota, that share of the strikes
///   starts a block, which lasts longer: as long as `strike` says.
#[derive(Clone)]
pub struct Blocks(Arc<States>);

struct States {
    strikes: Arc<dyn Limiter>,
    levels: Option<Arc<dyn Limiter>>,
    /// By the policy of the longest block. Whether a key is blocked is the same by each of them.
    block: Arc<dyn Limiter>,
    /// The same states, by the policies of shorter blocks, that of the first level first.
    shorter: Vec<Arc<dyn Limiter>>,
    clears_on_success: bool,
}

impl Blocks {
    /// Returns blocks whose states are in the store of `limiter`, and named after its policy. No call is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if a value of `block` is out of its range, if the
    /// longest block is shorter than the first one or longer than levels are kept, or if all levels together are not
    /// forgotten within 1,830 days; and as [`Limiter::sibling`].
    ///
    /// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName) if the name of the limiter's policy is longer than 56
    /// bytes.
    pub fn new(limiter: &dyn Limiter, block: &Block) -> Result<Self, Error> {
        let Policies { strikes, levels, shorter, longest } =
            block.policies(limiter.policy().name())?;
        let Block { capacity, clears_on_success, .. } = *block;
        let sibling = |policy: &Policy| limiter.sibling_with_capacity(policy, capacity);
        let block = sibling(&longest)?;
        Ok(Self(Arc::new(States {
            strikes: sibling(&strikes)?,
            levels: levels.as_ref().map(sibling).transpose()?,
            shorter: shorter.iter().map(|it| block.with_policy(it)).collect::<Result<_, _>>()?,
            block,
            clears_on_success,
        })))
    }

    /// Returns the demands that `key` is not blocked, to be [decided](decide) together with those of the request. They
    /// charge nothing, and may be in a list several times.
    ///
    /// The decision's wait is the time until the block ends, unless another demand has to wait longer. Refusals because
    /// of these demands need not be counted as strikes: they change nothing.
    #[must_use]
    pub fn demands<'a>(&'a self, key: &'a Key<'_>) -> [Demand<'a>; 2] {
        self.0.demands(key)
    }

    /// Counts a strike of `key`, and returns for how long the key is blocked from now on if this strike started the
    /// block. Otherwise `None`: there are too few strikes, or the key is blocked already.
    ///
    /// In memory the future is ready. In a store a strike is one call, or two calls that are made in turn if the store
    /// can't decide on the strikes and the block of a key in one step; a block takes up to three more. A future that is
    /// dropped before it is ready may leave a strike that is counted, or a block that is not written: see
    /// [Guarantees](Self#guarantees).
    ///
    /// # Errors
    ///
    /// As [`Limiter::check`]. The strike may have been counted.
    pub fn strike(&self, key: &Key<'_>) -> LimiterFuture<Option<Duration>> {
        self.run(key, |states, key| async move { states.strike(&key).await })
    }

    /// Forgets the strikes and the levels of `key` if the settings say [so](Block::clear_on_success), otherwise does
    /// nothing. A block stays.
    ///
    /// In a store this is one call, or two if blocks double.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reset`].
    pub fn success(&self, key: &Key<'_>) -> LimiterFuture<()> {
        match self.0.clears_on_success {
            true => self.forget(key, false),
            false => LimiterFuture::ready(Ok(())),
        }
    }

    /// Lifts the block of `key`, and forgets its strikes and levels.
    ///
    /// As by [`Limiter::reset`], other processes may have cached a refusal, for at most a second through Redis.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reset`]. All states are reset that can be; repeat it for the others.
    pub fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.forget(key, true)
    }

    /// Returns the time until the key is no longer refused because of its strikes, zero if it is not. Charges nothing.
    ///
    /// # Errors
    ///
    /// As [`decide`].
    pub fn blocked_for(&self, key: &Key<'_>) -> LimiterFuture<Duration> {
        // Both demands are for one permit, which fits as soon as the key is fresh.
        decide(&self.demands(key)).map(|it| it.retry_after().unwrap_or(Duration::MAX))
    }

    /// Resets all states, or those that a success clears.
    fn forget(&self, key: &Key<'_>, with_block: bool) -> LimiterFuture<()> {
        self.run(key, move |states, key| async move {
            let States { strikes, levels, block, .. } = &*states;
            let block = with_block.then_some(block);
            let mut result = Ok(());
            for limiter in [Some(strikes), levels.as_ref(), block].into_iter().flatten() {
                result = result.and(limiter.reset(&key).await);
            }
            result
        })
    }

    /// Returns the future of an operation, which is ready if the states are in memory.
    fn run<T, F: Future<Output = Result<T, Error>> + Send + 'static>(
        &self,
        key: &Key<'_>,
        operation: impl FnOnce(Arc<States>, Key<'static>) -> F,
    ) -> LimiterFuture<T> {
        let is_in_memory = self.0.block.store() == "memory";
        let operation = operation(Arc::clone(&self.0), key.clone().into_owned());
        if is_in_memory {
            LimiterFuture::polled(operation)
        } else {
            LimiterFuture::pending(operation)
        }
    }
}

impl States {
    fn demands<'a>(&'a self, key: &'a Key<'_>) -> [Demand<'a>; 2] {
        [&self.strikes, &self.block].map(|limiter| Demand::only_ask(limiter, key, Cost::ONE).once())
    }

    /// Counts a strike, and starts a block if that was the last one.
    async fn strike(&self, key: &Key<'_>) -> Result<Option<Duration>, Error> {
        let decided = decide(&[
            Demand::new(&self.strikes, key, Cost::ONE),
            Demand::only_ask(&self.block, key, Cost::ONE),
        ]);
        let decided = decided.await?;
        let strike =
            decided.decision(0).filter(|strike| decided.is_admitted() && has_state(strike));
        let Some(strike) = strike else { return Ok(None) };
        let receipt = decided.into_receipts().next().map(|(_, receipt)| receipt);
        // In memory, another thread may have written a block and reset the strikes since the key was found not to be
        // blocked. This strike then belongs to that block.
        if self.block.preview(key, Cost::ONE).is_some_and(|decision| !decision.is_admitted()) {
            give_back(&self.strikes, receipt).await;
            return Ok(None);
        }
        match strike.remaining() {
            0 => self.start_block(key, receipt).await,
            _ => Ok(None),
        }
    }

    /// Starts a block, and returns how long it lasts.
    ///
    /// The key's strikes are full, so no other strike starts a block until they are reset. They are reset after the block
    /// was written, so that the key is refused all the time.
    async fn start_block(
        &self,
        key: &Key<'_>,
        strike: Option<Receipt>,
    ) -> Result<Option<Duration>, Error> {
        let Some((level, raised)) = self.raise(key).await? else { return Ok(None) };
        let block = self.shorter.get(level).unwrap_or(&self.block);
        // The check is admitted only if no block is in force.
        let block = block.check(key).await;
        match &block {
            Ok(block) if has_state(block) && block.is_admitted() => {
                // If this fails, the strikes are full until the oldest no longer counts.
                drop(self.strikes.reset(key).await);
                return Ok(Some(block.reset_after()));
            }
            // This task was stalled until its strikes no longer counted, and another strike has started a block.
            Ok(block) if has_state(block) => give_back(&self.strikes, strike).await,
            _ => {}
        }
        if let Some(levels) = &self.levels {
            give_back(levels, raised).await;
        }
        block.map(|_| None)
    }

    /// Raises the level, and returns its index and the receipt. `None` if nothing was charged: the table is full, or the
    /// store has failed.
    async fn raise(&self, key: &Key<'_>) -> Result<Option<(usize, Option<Receipt>)>, Error> {
        let Some(levels) = &self.levels else { return Ok(Some((0, None))) };
        let raised = levels.take_up_to(key, Cost::ONE).await?;
        let decision = raised.decision();
        if !has_state(&decision) {
            return Ok(None);
        }
        let level = match decision.is_admitted() {
            true => {
                usize::try_from(decision.usage().used().saturating_sub(1)).unwrap_or(usize::MAX)
            }
            // All levels are in use.
            false => usize::MAX,
        };
        Ok(Some((level, raised.into_receipt())))
    }
}

/// Returns whether a decision was made by the state of the key.
fn has_state(decision: &Decision) -> bool {
    decision.source() != Source::FullTable
}

/// Refunds a receipt. A store that fails counts and reports refunds that it has lost.
async fn give_back(limiter: &Arc<dyn Limiter>, receipt: Option<Receipt>) {
    if let Some(receipt) = receipt {
        drop(limiter.refund(receipt).await);
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [Some(&self.0.strikes), self.0.levels.as_ref(), Some(&self.0.block)];
        let names = names.into_iter().flatten().map(|limiter| limiter.policy().name());
        f.debug_tuple("Blocks").field(&names.collect::<Vec<_>>()).finish()
    }
}
