//! Lua, as a server runs scripts by it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mlua::{Function, IntoLua, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use crate::{
    number,
    reply::Reply,
    store::{Running, Store},
    version::Version,
};

/// Makes `redis` and the functions that run scripts.
const PRELUDE: &str = include_str!("prelude.lua");

/// An interpreter, which the clones of a server share: no script changes it.
pub(crate) struct Engine {
    lua: Lua,
    /// Runs a function, and returns whether it succeeded, and its value or error.
    run: Function,
    /// What scripts see: functions, and `KEYS` and `ARGV`.
    globals: Table,
    /// In place of the globals: it can't be changed.
    environment: Table,
    /// The functions of texts.
    functions: BTreeMap<Vec<u8>, Function>,
    running: Arc<Mutex<Option<Running>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // The usual pcall, which has no panics to pass on.
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(libraries, options)?;
        let running = Arc::<Mutex<Option<Running>>>::default();
        let of_calls = Arc::clone(&running);
        let call = lua.create_function(move |lua, words: MultiValue| {
            match execute(lua, &of_calls, &words) {
                Reply::Error(text) => Err(mlua::Error::external(CommandError(text))),
                reply => value_of(lua, &reply),
            }
        })?;
        let of_calls = Arc::clone(&running);
        let protected_call = lua.create_function(move |lua, words: MultiValue| {
            value_of(lua, &execute(lua, &of_calls, &words))
        })?;
        let of_errors = Arc::clone(&running);
        let plain = lua.create_function(move |lua, error: Value| {
            let text = match &error {
                Value::Table(_) if version(&of_errors) == Version::Redis6_2 => None,
                error => error_text(error),
            };
            text.map_or(Ok(error), |text| text.into_lua(lua))
        })?;
        let of_errors = Arc::clone(&running);
        let handler = lua.create_function(move |lua, error: Value| {
            let text = match (&error, error_text(&error)) {
                (_, Some(text)) => text,
                (Value::Table(_), None) => "ERR unknown error".to_owned(),
                (other, None) if version(&of_errors) == Version::Redis6_2 => other.to_string()?,
                (other, None) => format!("ERR {}", other.to_string()?),
            };
            let error = lua.create_table()?;
            error.raw_set("err", text)?;
            error.raw_set("line", script_line(lua))?;
            Ok(error)
        })?;
        let (run, globals, environment) =
            lua.load(PRELUDE).set_name("=prelude").call((call, protected_call, plain, handler))?;
        Ok(Self { lua, run, globals, environment, functions: BTreeMap::new(), running })
    }

    /// Compiles a text, unless it is known. Returns the error of one that can't be.
    pub(crate) fn compile(&mut self, text: &[u8]) -> Result<(), String> {
        if self.functions.contains_key(text) {
            return Ok(());
        }
        let chunk = self.lua.load(text).set_name("@user_script");
        let function = chunk.set_environment(self.environment.clone()).into_function();
        let function = function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })?;
        self.functions.insert(text.to_vec(), function);
        Ok(())
    }

    /// Runs a text that was compiled, on a store that it gives back.
    pub(crate) fn run(
        &self,
        (text, digest): (&[u8], &str),
        (keys, arguments): (&[&[u8]], &[&[u8]]),
        (store, is_asking): (Store, bool),
    ) -> (Reply, Store) {
        let version = store.version();
        *lock(&self.running) = Some(Running::new(store, is_asking));
        let result = self.call(text, keys, arguments);
        let store = lock(&self.running).take().map(|running| running.store).unwrap_or_default();
        let reply = match result {
            Ok((true, value)) => reply_of(&value),
            Ok((false, error)) => {
                let error = error.as_table();
                let text = error.and_then(|error| error.raw_get::<String>("err").ok());
                let line = error.and_then(|error| error.raw_get::<usize>("line").ok());
                let text = text.unwrap_or_else(|| "ERR unknown error".to_owned());
                Reply::Error(version.uncaught(&one_line(&text), digest, line.unwrap_or(0)))
            }
            Err(error) => Reply::error(format!("ERR {error}")),
        };
        (reply, store)
    }

    fn call(
        &self,
        text: &[u8],
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> mlua::Result<(bool, Value)> {
        let list = |words: &[&[u8]]| {
            let words: mlua::Result<Vec<_>> =
                words.iter().map(|word| self.lua.create_string(word)).collect();
            self.lua.create_sequence_from(words?)
        };
        self.globals.raw_set("KEYS", list(keys)?)?;
        self.globals.raw_set("ARGV", list(arguments)?)?;
        let function = self.functions.get(text);
        function.map_or(Ok((true, Value::Nil)), |function| self.run.call(function))
    }
}

fn lock(running: &Mutex<Option<Running>>) -> MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a command, while it unwinds a script.
#[derive(Debug)]
struct CommandError(String);

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}

/// Runs a command that a script calls.
fn execute(lua: &Lua, running: &Mutex<Option<Running>>, words: &MultiValue) -> Reply {
    let line = line_at(lua, 1).flatten();
    let mut running = lock(running);
    let Some(running) = running.as_mut() else { return Reply::error("ERR no script runs") };
    let version = running.store.version();
    let words = words.iter().map(|value| word(value, version)).collect::<Option<Vec<_>>>();
    match words {
        Some(words) => running.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>(), line),
        None => Reply::Error(version.in_script(version.wrong_words_in_script(), line)),
    }
}

/// Returns the version that the script which runs is for.
fn version(running: &Mutex<Option<Running>>) -> Version {
    lock(running).as_ref().map(|running| running.store.version()).unwrap_or_default()
}

/// Returns the text of an error of a command, or of a table that has one.
fn error_text(error: &Value) -> Option<String> {
    match error {
        Value::Error(error) => {
            error.chain().find_map(|it| it.downcast_ref::<CommandError>()).map(|it| it.0.clone())
        }
        Value::Table(table) => field(table, "err"),
        _ => None,
    }
}

/// Returns the line of the script that runs, or that has called what runs.
fn script_line(lua: &Lua) -> usize {
    (1..).map_while(|level| line_at(lua, level)).flatten().next().unwrap_or(0)
}

/// Returns the line at a level of the stack if it is one of the script, and the outer `None` if there is no such level.
fn line_at(lua: &Lua, level: usize) -> Option<Option<usize>> {
    lua.inspect_stack(level, |frame| {
        let is_script = frame.source().short_src.is_some_and(|it| it == "user_script");
        frame.current_line().filter(|_| is_script)
    })
}

/// Returns a word of a command.
fn word(value: &Value, version: Version) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        #[expect(clippy::cast_precision_loss, reason = "it was a double")]
        Value::Integer(number) => Some(number::text(*number as f64, version).into()),
        Value::Number(number) => Some(number::text(*number, version).into()),
        _ => None,
    }
}

/// Returns a reply as scripts see it.
fn value_of(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let table = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        #[expect(clippy::cast_precision_loss, reason = "as in Lua, whose numbers are doubles")]
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Status(text) => table("ok", text),
        Reply::Bulk(text) => Ok(Value::String(lua.create_string(text)?)),
        Reply::Array(replies) => {
            let values: mlua::Result<Vec<_>> =
                replies.iter().map(|reply| value_of(lua, reply)).collect();
            Ok(Value::Table(lua.create_sequence_from(values?)?))
        }
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Error(text) => table("err", text),
    }
}

/// Returns what a script's value is replied as. An array ends at its first nil.
fn reply_of(value: &Value) -> Reply {
    match value {
        Value::Boolean(true) => Reply::Integer(1),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(number::truncated(*number)),
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Table(table) => {
            if let Some(text) = field(table, "err") {
                return Reply::Error(one_line(&text));
            }
            if let Some(text) = field(table, "ok") {
                return Reply::Status(one_line(&text));
            }
            let elements = (1..).map_while(|place: i64| {
                table.raw_get::<Value>(place).ok().filter(|value| !value.is_nil())
            });
            Reply::Array(elements.map(|element| reply_of(&element)).collect())
        }
        _ => Reply::Nil,
    }
}

/// Returns the text in a field of a table.
fn field(table: &Table, name: &str) -> Option<String> {
    let value = table.raw_get::<Value>(name).ok()?;
    value.as_string().map(LuaString::to_string_lossy)
}

fn one_line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}
