//! The command line.

use std::{ffi::OsString, fs, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use limiter_core::{Key, Policy};
use limiter_redis::{Builder, ConnectOptions, Connection, RedisLimiter, connect_with};

use crate::{Failure, limits::Limits, tls};

/// Checks a Redis or Valkey server that keeps rate limits, and explains, ranks and resets their states.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Exit codes:
  0  done, and nothing is wrong
  1  `report` or `explain` found a problem, `reset` found nothing to delete, or a node did
     not reply to `top`
  2  an argument is invalid
  3  the server could not be reached, or refused the command"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the states are.
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// The server's address: redis://, rediss://, redis-sentinel:// or redis-cluster://
    #[arg(long, global = true, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    url: Option<String>,
    /// The prefix of the limiters' keys
    #[arg(long, global = true, default_value = Builder::DEFAULT_PREFIX)]
    pub(crate) prefix: String,
    /// A file with the secret that keys the digests of secret subjects [env: LIMITER_KEY_SECRET=]
    #[arg(long, global = true, value_name = "FILE")]
    key_secret_file: Option<PathBuf>,
    /// A PEM file with the certificate for a server that demands one of its clients. It needs --key
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// A PEM file with the private key of --cert
    #[arg(long, global = true, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check whether the server is configured to keep limits, and report what to change
    Report,
    /// Print what is stored of a subject, and what it means
    Explain {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        limits: LimitsFile,
    },
    /// List the subjects that are closest to their limit
    Top(Top),
    /// Delete what is stored of a subject, so that all its permits are free
    Reset(Target),
    /// List the scripts that limiters send, by the digests that SLOWLOG and errors show
    Scripts {
        /// Print the text of this one instead
        name: Option<String>,
    },
}

/// One key.
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// A stored key, as SCAN shows it, or with --name a subject. `-` reads it from the standard input
    #[arg(value_name = "KEY|SUBJECT")]
    pub(crate) target: OsString,
    /// How the program passes the subject
    #[arg(long, value_enum, default_value_t = Kind::Text, requires = "name")]
    pub(crate) kind: Kind,
    /// The subject is a secret, so its key is a keyed digest
    #[arg(long, requires = "name")]
    pub(crate) secret: bool,
    /// The name of the policy that the limiter was built with, which is not that of a tier
    #[arg(long)]
    pub(crate) name: Option<String>,
}

/// Which subjects to list.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// The name of the policy that the limiter was built with, which is not that of a tier
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitsFile,
    /// How many subjects to list, at most 1000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=1_000),
    )]
    pub(crate) limit: u16,
    /// Stop after reading so many keys of a server
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) max_keys: u64,
    /// Stop after so many seconds, at most 86400
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(..=86_400),
    )]
    pub(crate) max_seconds: u64,
}

/// The limits by which permits are counted.
#[derive(Args, Debug)]
pub(crate) struct LimitsFile {
    /// The TOML file from which the service loads its limits, to count permits by them. They may be in its table
    /// `limits`
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
}

/// What a program passes as the key of a check.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// A text: `&str` or `String`
    Text,
    /// Bytes: `&[u8]` or `Vec<u8>`
    Bytes,
    /// An integer of any type
    Integer,
    /// An IP address
    Address,
}

impl Server {
    /// Connects, and waits for the connection for at most a second.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let url = self.url.as_deref().ok_or_else(|| {
            let message = "no server is given: use --url redis://HOST:6379, or set REDIS_URL";
            Failure::Usage(message.to_owned())
        })?;
        let options = match (&self.cert, &self.key) {
            (None, None) => ConnectOptions::new(),
            (Some(certificate), Some(key)) => tls::options(certificate, key)?,
            _ => {
                let message = "only one of --cert and --key is given; give both";
                return Err(Failure::Usage(message.to_owned()));
            }
        };
        Ok(connect_with(url, &options).await?)
    }

    /// Returns the key of a subject's hash, with which the keys of its lists begin.
    pub(crate) fn hash_key<'a>(
        &self,
        connection: &Connection,
        policy: &str,
        subject: impl Into<Key<'a>>,
    ) -> Result<Vec<u8>, Failure> {
        // Any quota that is not a log's has the same hash.
        let policy = Policy::parse(policy, "1/s")?;
        let mut builder = RedisLimiter::builder(policy).prefix(&self.prefix);
        if let Some(secret) = self.key_secret()? {
            builder = builder.key_secret(secret);
        }
        let limiter = builder.build_on(connection.clone())?;
        Ok(limiter.stored_keys(subject)?.swap_remove(0))
    }

    pub(crate) fn has_key_secret(&self) -> Result<bool, Failure> {
        Ok(self.key_secret()?.is_some())
    }

    fn key_secret(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.key_secret_file else {
            return Ok(std::env::var("LIMITER_KEY_SECRET").ok());
        };
        let secret = fs::read_to_string(file).map_err(|error| {
            Failure::Usage(format!("can't read the key secret in {}: {error}", file.display()))
        })?;
        Ok(Some(secret.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

impl LimitsFile {
    /// Returns the limits of the service, none if no file is given.
    pub(crate) fn read(&self) -> Result<Limits, Failure> {
        self.limits.as_deref().map_or_else(|| Ok(Limits::default()), Limits::read)
    }
}
