//! The servers whose texts are replied.

/// A server, which decides about the texts of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Redis 6.2.
    Redis6_2,
    /// Redis 7.0.
    #[default]
    Redis7_0,
    /// Redis 8.2.
    Redis8_2,
    /// Valkey 9.1.
    Valkey9_1,
}

use Version::{Redis6_2, Redis7_0, Valkey9_1};

/// The error of a command that needs memory where it is full.
pub(crate) const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

impl Version {
    pub(crate) const fn name(self) -> &'static str {
        if matches!(self, Valkey9_1) { "Valkey" } else { "Redis" }
    }

    pub(crate) fn unknown_command(self, name: &[u8], arguments: &[&[u8]]) -> String {
        let name = String::from_utf8_lossy(name);
        let words = arguments.iter().map(|word| String::from_utf8_lossy(word));
        let (quote, separator) = if self == Redis6_2 { ('`', ", ") } else { ('\'', " ") };
        let words: String = words.map(|word| format!("{quote}{word}{quote}{separator}")).collect();
        format!("ERR unknown command {quote}{name}{quote}, with args beginning with: {words}")
    }

    /// Returns the error for an expiry that has passed or can't be reached.
    pub(crate) fn invalid_expiry(self, command: &str) -> String {
        match self {
            Redis6_2 => format!("ERR invalid expire time in {command}"),
            _ => format!("ERR invalid expire time in '{command}' command"),
        }
    }

    pub(crate) const fn no_script(self) -> &'static str {
        match self {
            Valkey9_1 => "NOSCRIPT No matching script.",
            _ => "NOSCRIPT No matching script. Please use EVAL.",
        }
    }

    pub(crate) fn cannot_save(self) -> String {
        let name = self.name();
        let reason = match self {
            Redis6_2 => "it is currently not able to persist on disk",
            _ => "it's currently unable to persist to disk",
        };
        format!(
            "MISCONF {name} is configured to save RDB snapshots, but {reason}. Commands that may modify the data set \
             are disabled, because this instance is configured to report errors during writes if RDB snapshotting \
             fails (stop-writes-on-bgsave-error option). Please check the {name} logs for details about the RDB error."
        )
    }

    /// Returns the error for a user who may not call a command, or one of its subcommands.
    pub(crate) fn denied(self, command: &str, subcommand: Option<&[u8]>) -> String {
        let subcommand = subcommand
            .filter(|_| self != Redis6_2)
            .map(|word| format!("|{}", String::from_utf8_lossy(word).to_ascii_lowercase()));
        let command = command.to_owned() + &subcommand.unwrap_or_default();
        match self {
            Redis6_2 => format!(
                "NOPERM this user has no permissions to run the '{command}' command or its subcommand"
            ),
            Redis7_0 => {
                format!("NOPERM this user has no permissions to run the '{command}' command")
            }
            _ => format!("NOPERM User default has no permissions to run the '{command}' command"),
        }
    }

    pub(crate) fn denied_in_script(self, command: &str) -> String {
        match self {
            Redis6_2 => {
                "The user executing the script can't run this command or subcommand".to_owned()
            }
            Redis7_0 => {
                "ERR The user executing the script can't run this command or subcommand".to_owned()
            }
            _ => format!(
                "ERR ACL failure in script: User default has no permissions to run the '{command}' command"
            ),
        }
    }

    pub(crate) const fn no_words_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Please specify at least one argument for redis.call()",
            Valkey9_1 => "ERR Please specify at least one argument for this call",
            _ => "ERR Please specify at least one argument for this redis lib call",
        }
    }

    pub(crate) const fn wrong_words_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Lua redis() command arguments must be strings or integers",
            Valkey9_1 => "ERR Command arguments must be strings or integers",
            _ => "ERR Lua redis lib command arguments must be strings or integers",
        }
    }

    pub(crate) const fn unknown_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Unknown Redis command called from Lua script",
            Valkey9_1 => "ERR Unknown command called from script",
            _ => "ERR Unknown Redis command called from script",
        }
    }

    pub(crate) const fn arity_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Wrong number of args calling Redis command From Lua script",
            Valkey9_1 => "ERR Wrong number of args calling command from script",
            _ => "ERR Wrong number of args calling Redis command from script",
        }
    }

    pub(crate) const fn not_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "This Redis command is not allowed from scripts",
            Valkey9_1 => "ERR This Valkey command is not allowed from script",
            _ => "ERR This Redis command is not allowed from script",
        }
    }

    pub(crate) const fn not_local_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Lua script attempted to access a non local key in a cluster node",
            Valkey9_1 => "ERR Attempted to access a non local key in a cluster node",
            _ => "ERR Script attempted to access a non local key in a cluster node",
        }
    }

    /// Returns the error that a script gets in place of one that a client gets.
    pub(crate) fn shared_in_script(self, error: String) -> String {
        // Redis 6.2 hands its reply to the script as it is.
        if self == Redis6_2 { format!("-{error}\r\n") } else { error }
    }

    /// Returns the error of a command that a script may not call, at a line if a function of the script calls it.
    pub(crate) fn in_script(self, error: &str, line: Option<usize>) -> String {
        match (self, line) {
            (Redis6_2, Some(line)) => format!("@user_script: {line}: {error}"),
            (Redis6_2, None) => format!("=[C]: -1: {error}"),
            _ => error.to_owned(),
        }
    }

    /// Returns the reply to a script that ends with an error.
    pub(crate) fn uncaught(self, error: &str, digest: &str, line: usize) -> String {
        match self {
            Redis6_2 => {
                format!(
                    "ERR Error running script (call to f_{digest}): @user_script:{line}: {error}"
                )
            }
            Valkey9_1 => format!("{error} script: on @user_script:{line}."),
            _ => format!("{error} script: {digest}, on @user_script:{line}."),
        }
    }
}
