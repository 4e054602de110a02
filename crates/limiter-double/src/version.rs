//! The servers whose words are spoken.

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

use Version::Redis6_2;

impl Version {
    pub(crate) fn unknown_command(self, name: &[u8], arguments: &[&[u8]]) -> String {
        let name = String::from_utf8_lossy(name);
        let words = arguments.iter().map(|word| String::from_utf8_lossy(word));
        let (quote, separator) = if self == Redis6_2 { ('`', ", ") } else { ('\'', " ") };
        let close = quote;
        let words: String = words.map(|word| format!("{quote}{word}{close}{separator}")).collect();
        format!("ERR unknown command {quote}{name}{close}, with args beginning with: {words}")
    }

    pub(crate) fn denied(self, command: &str) -> String {
        match self {
            Redis6_2 => format!(
                "NOPERM this user has no permissions to run the '{command}' command or its subcommand"
            ),
            Self::Redis7_0 => {
                format!("NOPERM this user has no permissions to run the '{command}' command")
            }
            _ => format!("NOPERM User default has no permissions to run the '{command}' command"),
        }
    }

    pub(crate) fn denied_in_script(self, command: &str) -> String {
        match self {
            Redis6_2 => "NOPERM The user executing the script can't run this command or subcommand"
                .to_owned(),
            Self::Redis7_0 => {
                "NOPERM ACL failure in script: this user has no permissions to run the".to_owned()
                    + &format!(" '{command}' command")
            }
            _ => format!(
                "NOPERM ACL failure in script: User default has no permissions to run the '{command}' command"
            ),
        }
    }

    pub(crate) const fn no_words_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Please specify at least one argument for redis.call()",
            _ => "ERR Please specify at least one argument for this redis.call() call",
        }
    }

    pub(crate) const fn wrong_words_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Lua redis() command arguments must be strings or integers",
            _ => "ERR Lua redis lib command arguments must be strings or integers",
        }
    }

    pub(crate) const fn unknown_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Unknown Redis command called from Lua script",
            _ => "ERR Unknown Redis command called from script",
        }
    }

    pub(crate) const fn arity_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Wrong number of args calling Redis command From Lua script",
            _ => "ERR Wrong number of args calling Redis command from script",
        }
    }

    pub(crate) const fn not_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "This Redis command is not allowed from scripts",
            _ => "ERR This Redis command is not allowed from script",
        }
    }

    pub(crate) const fn not_local_in_script(self) -> &'static str {
        match self {
            Redis6_2 => "Lua script attempted to access a non local key in a cluster node",
            _ => "ERR Script attempted to access a non local key in a cluster node",
        }
    }

    /// Returns the error of a command that a script may not call in a line.
    pub(crate) fn in_script(self, error: &str, line: usize) -> String {
        match self {
            Redis6_2 => format!("@user_script: {line}: {error}"),
            _ => error.to_owned(),
        }
    }

    /// Returns the reply to a script that ends with an error.
    pub(crate) fn uncaught(self, error: &str, digest: &str, line: Option<usize>) -> String {
        let line = line.unwrap_or(0);
        match self {
            Redis6_2 => {
                format!(
                    "ERR Error running script (call to f_{digest}): @user_script:{line}: {error}"
                )
            }
            _ => format!("{error} script: {digest}, on @user_script:{line}."),
        }
    }
}
