//! Laws of several rules in one layer, over limiters in memory and through a Redis in this process: random requests,
//! resets, failures of the store and time.

use limiter_core::{Clock, Timestamp};
use limiter_redis::RedisLimiter;
use proptest::{collection::vec, prelude::*, test_runner::TestCaseResult};

use self::client::{Client, Fate};
use crate::*;

#[expect(
    dead_code,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a file of another crate's tests, which need the rest of it, too"
)]
#[path = "../../../limiter-redis/src/tests/client.rs"]
mod client;

const MINUTE: Duration = Duration::from_secs(60);

/// A user that an outer layer has verified.
#[derive(Clone, Copy)]
struct User(u64);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request from an address, of a user. It is reset after so many polls, or never.
    Send {
        address: u8,
        user: u64,
        polls: Option<u8>,
    },
    Pass(u64),
    /// Sets what becomes of calls to the store.
    Calls(Fate),
}

fn requests(resets: bool) -> impl Strategy<Value = Step> {
    let polls = if resets {
        (0..6_u8).prop_map(|it| (it < 5).then_some(it)).boxed()
    } else {
        Just(None).boxed()
    };
    (0..2_u8, 0..3_u64, polls).prop_map(|(address, user, polls)| Step::Send {
        address,
        user,
        polls,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fates = [Fate::Served, Fate::Served, Fate::LostRequest, Fate::LostReply];
    let fate = proptest::sample::select(fates.to_vec()).prop_map(Step::Calls);
    vec(
        prop_oneof![8 => requests(true), 2 => (1..20_000_u64).prop_map(Step::Pass), 1 => fate],
        1..80,
    )
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

/// A service with rules by address, by user and for all, in memory or through Redis.
struct World {
    client: Client,
    rules: [Rule; 3],
    service: Limited<tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>>,
    /// When requests were admitted, and their keys.
    admitted: Vec<(Timestamp, Ipv4Addr, u64)>,
}

fn policies() -> [Policy; 3] {
    [("address", "3/min"), ("user", "4/min by fixed-window"), ("all", "6/min by sliding-log")]
        .map(|(name, limit)| Policy::parse(name, limit).unwrap())
}

impl World {
    /// Each rule is in memory or in a store. Those in stores share one, or have one each.
    fn new(in_memory: [bool; 3], are_siblings: bool, settle: fn(u16) -> Keep) -> Self {
        let client = at_work();
        let mut sibling: Option<RedisLimiter<Client>> = None;
        let mut place = 0;
        let mut in_memory = in_memory.into_iter();
        let rules = policies().map(|policy| {
            let of_rule = match in_memory.next().unwrap() {
                true => in_memory_by(&policy, client.clock()),
                false => match &sibling {
                    Some(first) if are_siblings => Arc::new(first.sibling(&policy).unwrap()),
                    _ => {
                        let builder = RedisLimiter::builder(policy).denial_cache(0);
                        let limiter =
                            builder.clock(client.clock()).build_on(client.clone()).unwrap();
                        sibling = Some(limiter.clone());
                        Arc::new(limiter)
                    }
                },
            };
            place += 1;
            match place {
                1 => Rule::new(of_rule, ClientIp::peer()),
                2 => Rule::new(of_rule, ExtensionKey::new(|user: &User| user.0.into()).or_reject()),
                _ => Rule::new(of_rule, FixedKey::new("all")),
            }
            .on_store_failure(OnStoreFailure::Deny)
            .settle(move |response| settle(response.status.as_u16()))
        });
        let inner = service_fn(|request: Request<Body>| async move {
            let failed = request.extensions().get::<User>().is_some_and(|user| user.0 == 2);
            let mut response = Response::new(Body::default());
            *response.status_mut() = if failed { StatusCode::NOT_FOUND } else { StatusCode::OK };
            Ok(response)
        });
        let inner = tower::util::BoxCloneSyncService::new(inner);
        let service = RateLimitLayer::all(rules.clone()).layer(inner);
        Self { client, rules, service, admitted: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        self.client.clock().now()
    }

    /// Runs what the limiters and the rules have spawned.
    async fn run(&self) {
        for _ in 0..20 {
            self.client.spawned().into_iter().for_each(|task| drop(tokio::spawn(task)));
            tokio::task::yield_now().await;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Pass(millis) => self.client.pass(Duration::from_millis(millis)),
            Step::Calls(fate) => self.client.set_fate(move |_| fate),
            Step::Send { address, user, polls } => {
                let peer = Ipv4Addr::new(192, 0, 2, address);
                let mut request = request_from(&peer.to_string());
                request.extensions_mut().insert(User(user));
                let mut answer: Answer = Box::pin(self.service.call(request));
                for poll in 0..200 {
                    if polls.is_some_and(|polls| poll >= polls.into()) {
                        break;
                    }
                    if let Some(answered) = poll_once(answer.as_mut()) {
                        if [200, 404].contains(&answered.unwrap().status().as_u16()) {
                            self.admitted.push((self.now(), peer, user));
                        }
                        break;
                    }
                    self.run().await;
                    // A call without a reply ends with its deadline.
                    if poll > 20 {
                        self.client.pass(Duration::from_millis(50));
                    }
                }
            }
        }
        self.run().await;
    }

    async fn used(&self, rule: usize, key: impl Into<Key<'static>>) -> u64 {
        let key = key.into();
        let mut peeked = Box::pin(self.rules.get(rule).unwrap().peek(&key));
        loop {
            if let Some(usage) = poll_once(peeked.as_mut()) {
                return usage.unwrap().used();
            }
            self.run().await;
        }
    }
}

/// Returns the client of a server whose clock is set.
fn at_work() -> Client {
    let client = Client::new();
    client.pass(Duration::from_secs(1_700_000_000));
    client
}

fn in_memory_by(policy: &Policy, clock: ManualClock) -> Arc<dyn Limiter> {
    Arc::new(MemoryLimiter::builder(policy.clone()).clock(clock).build().unwrap())
}

fn run(test: impl Future<Output = TestCaseResult>) -> TestCaseResult {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test)
}

/// Returns the most admissions in any trailing minute of those that `has` selects.
fn most(admitted: &[(Timestamp, Ipv4Addr, u64)], has: impl Fn(Ipv4Addr, u64) -> bool) -> usize {
    let of_key = || admitted.iter().filter(|(_, address, user)| has(*address, *user));
    let within = |end: Timestamp| {
        of_key().filter(|(at, ..)| *at <= end && end.saturating_since(*at) < MINUTE).count()
    };
    of_key().map(|(end, ..)| within(*end)).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is reset, lost or late, no rule admits more than it would alone.
    #[test]
    fn no_rule_is_above_its_bound(
        steps in steps(),
        in_memory in any::<[bool; 3]>(),
        are_siblings in any::<bool>(),
    ) {
        run(async {
            let mut world = World::new(in_memory, are_siblings, |_| Keep::All);
            for step in steps {
                world.step(step).await;
            }
            for address in [0, 1].map(|last| Ipv4Addr::new(192, 0, 2, last)) {
                // A full burst, and what recovers in a minute.
                prop_assert!(most(&world.admitted, |it, _| it == address) <= 6);
            }
            for user in 0..3 {
                // The ends of two windows.
                prop_assert!(most(&world.admitted, |_, it| it == user) <= 8);
            }
            prop_assert!(most(&world.admitted, |_, _| true) <= 6);
            Ok(())
        })?;
    }

    /// A refusal by one rule leaves nothing charged under another one, and a settlement gives back what it says.
    #[test]
    fn what_is_refused_or_settled_leaves_nothing_charged(
        requests in vec(requests(false), 1..40),
        in_memory in any::<[bool; 3]>(),
        are_siblings in any::<bool>(),
        settles in any::<bool>(),
    ) {
        run(async {
            let settle = if settles {
                |status| if status == 404 { Keep::None } else { Keep::All }
            } else {
                |_| Keep::All
            };
            let mut world = World::new(in_memory, are_siblings, settle);
            for request in requests {
                world.step(request).await;
                let kept: Vec<_> =
                    world.admitted.iter().filter(|(.., user)| !settles || *user != 2).collect();
                for address in [0, 1].map(|last| Ipv4Addr::new(192, 0, 2, last)) {
                    let of_key = kept.iter().filter(|(_, it, _)| *it == address).count();
                    prop_assert_eq!(world.used(0, address).await, of_key as u64);
                }
                for user in 0..3 {
                    let of_key = kept.iter().filter(|(.., it)| *it == user).count();
                    prop_assert_eq!(world.used(1, user).await, of_key as u64);
                }
                prop_assert_eq!(world.used(2, "all").await, kept.len() as u64);
            }
            Ok(())
        })?;
    }

    /// Requests that wait and are reset use no permits up, and take no more places than the queue has.
    #[test]
    fn waits_and_resets_conserve_permits(
        steps in vec(prop_oneof![
            3 => Just(None),
            2 => (0..4_usize).prop_map(|place| Some(Ok(place))),
            2 => (1..3_000_u64).prop_map(|millis| Some(Err(millis))),
        ], 1..60),
        is_in_memory in any::<bool>(),
    ) {
        run(async {
            const QUEUE: usize = 3;
            let client = at_work();
            let policy = Policy::parse("jobs", "60/min burst 1").unwrap();
            let wait = Wait::up_to(Duration::from_secs(10)).queue(QUEUE).clock(client.clock());
            let rule = if is_in_memory {
                let limiter = MemoryLimiter::builder(policy).clock(client.clock()).build().unwrap();
                Rule::waiting(limiter, ClientIp::peer(), wait)
            } else {
                let builder = RedisLimiter::builder(policy).denial_cache(0).clock(client.clock());
                let limiter = builder.build_on(client.clone()).unwrap();
                Rule::waiting(limiter, ClientIp::peer(), wait)
            };
            let mut service =
                RateLimitLayer::all([rule.clone()]).layer(service_fn(hello));
            let mut waiting: Vec<Answer> = Vec::new();
            let (start, mut admitted) = (client.clock().now(), 0);
            // How many have waited since time has passed, those included that were reset.
            let mut have_waited = 0;
            for step in steps {
                let before = waiting.len();
                match step {
                    None => waiting.push(Box::pin(service.call(request()))),
                    Some(Ok(place)) if place < waiting.len() => drop(waiting.remove(place)),
                    Some(Ok(_)) => {}
                    Some(Err(millis)) => {
                        client.pass(Duration::from_millis(millis));
                        have_waited = 0;
                    }
                }
                for _ in 0..30 {
                    client.spawned().into_iter().for_each(|task| drop(tokio::spawn(task)));
                    tokio::task::yield_now().await;
                    waiting.retain_mut(|answer| match poll_once(answer.as_mut()) {
                        Some(answered) => {
                            admitted += u64::from(answered.unwrap().status() == 200);
                            false
                        }
                        None => true,
                    });
                }
                have_waited += waiting.len().saturating_sub(before);
                prop_assert!(waiting.len() <= QUEUE && have_waited <= QUEUE, "{have_waited}");
                let elapsed = client.clock().now().saturating_since(start);
                prop_assert!(admitted <= 1 + elapsed.as_secs(), "{admitted} in {elapsed:?}");
            }
            // What was reset is free: a permit recovers within a second of the last admission. A store gives no reservation
            // back that has another one behind it, so there it takes a second for each.
            drop(waiting);
            for _ in 0..30 {
                client.spawned().into_iter().for_each(|task| drop(tokio::spawn(task)));
                tokio::task::yield_now().await;
            }
            client.pass(Duration::from_secs(if is_in_memory { 1 } else { 1 + QUEUE as u64 }));
            let key = CLIENT.into();
            let mut peeked = Box::pin(rule.peek(&key));
            let usage = loop {
                if let Some(usage) = poll_once(peeked.as_mut()) {
                    break usage.unwrap();
                }
                client.spawned().into_iter().for_each(|task| drop(tokio::spawn(task)));
                tokio::task::yield_now().await;
            };
            prop_assert_eq!(usage.remaining(), 1);
            Ok(())
        })?;
    }
}
