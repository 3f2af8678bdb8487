//! `posthaste events`: list, follow, show and enqueue them.

use crate::cli::events::EventsCommand;
use crate::context::Context;
use crate::failure::Failure;

mod enqueue;
mod follow;
mod list;
pub(crate) mod show;

pub(crate) use enqueue::body;

pub(crate) async fn run(context: &Context, command: EventsCommand) -> Result<(), Failure> {
    match command {
        EventsCommand::List(options) if options.follow => follow::run(context, options).await,
        EventsCommand::List(options) => list::run(context, &options).await,
        EventsCommand::Show(options) => show::run(context, &options).await,
        EventsCommand::Enqueue(options) => enqueue::run(context, options).await,
    }
}
