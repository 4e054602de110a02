//! Lua, as a server runs scripts by it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use crate::{
    number,
    reply::Reply,
    store::{Running, Store},
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
        let execute = lua.create_function(move |lua, words: MultiValue| {
            let line = line(lua, 2);
            let words = words.iter().map(word).collect::<Option<Vec<_>>>();
            let mut running = lock(&of_calls);
            let reply = match (running.as_mut(), words) {
                (Some(running), Some(words)) => {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    running.call(&words, line)
                }
                (Some(running), None) => {
                    let version = running.store.version;
                    Reply::Error(version.in_script(version.wrong_words_in_script(), line))
                }
                (None, _) => Reply::error("ERR no script runs"),
            };
            drop(running);
            let is_error = matches!(reply, Reply::Error(_));
            let value = value_of(lua, &reply)?;
            if let (Value::Table(error), true) = (&value, is_error) {
                error.raw_set("line", line)?;
            }
            Ok((!is_error, value))
        })?;
        let line_at = lua.create_function(|lua, level: usize| Ok(line(lua, level)))?;
        let digest = lua.create_function(|_, text: LuaString| {
            Ok(sha1_smol::Sha1::from(text.as_bytes()).digest().to_string())
        })?;
        let (run, globals, environment) =
            lua.load(PRELUDE).set_name("=prelude").call((execute, line_at, digest))?;
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
        let version = store.version;
        *lock(&self.running) = Some(Running::new(store, is_asking));
        let result = self.call(text, keys, arguments);
        let store = lock(&self.running).take().map(|running| running.store).unwrap_or_default();
        let reply = match result {
            Ok((true, value)) => reply_of(&value),
            Ok((false, error)) => {
                let (text, line) = match &error {
                    Value::Table(error) => {
                        (error.raw_get("err").ok(), error.raw_get("line").ok().flatten())
                    }
                    _ => (None, None),
                };
                let text: String = text.unwrap_or_else(|| "ERR unknown error".to_owned());
                Reply::Error(version.uncaught(&text, digest, line))
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

/// Returns the line that runs at a level of the stack, or at the next one that has lines.
fn line(lua: &Lua, level: usize) -> usize {
    let line = |level| lua.inspect_stack(level, |frame| frame.current_line()).flatten();
    line(level).or_else(|| line(level + 1)).unwrap_or(0)
}

/// Returns a word of a command.
fn word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into()),
        Value::Number(number) => Some(number::text(*number).into()),
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
            let text = |name: &str| table.raw_get::<Option<String>>(name).ok().flatten();
            if let Some(text) = text("err") {
                return Reply::Error(text);
            }
            if let Some(text) = text("ok") {
                return Reply::Status(text);
            }
            let elements = (1..).map_while(|place: i64| {
                table.raw_get::<Value>(place).ok().filter(|value| !value.is_nil())
            });
            Reply::Array(elements.map(|element| reply_of(&element)).collect())
        }
        _ => Reply::Nil,
    }
}
