//! The twins, against the core and against each other, and the commands of the server.

mod arguments;
mod commands;
mod core;
mod hot;
mod world;
