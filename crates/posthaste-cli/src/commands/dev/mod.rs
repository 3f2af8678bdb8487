//! `posthaste dev`: a sample application and three subscriptions on SQLite, shown live until somebody stops it.

use std::path::Path;
use std::time::{Duration, Instant};

use posthaste::Posthaste;
use sqlx::SqlitePool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::DevOptions;
use crate::failure::Failure;
use crate::signals::Signals;

mod file;
mod application;
mod subscriptions;
mod tally;
mod screen;
mod json;
mod summary;
mod output;

use application::Application;
use file::DatabaseFile;
use output::Output;
use screen::Picture;
use subscriptions::Subscriptions;
use tally::Tally;

/// How often the store is asked where every event stands.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long the end waits for events that are still being delivered or retried.
const FINISH_WITHIN: Duration = Duration::from_secs(6);

pub(crate) async fn run(options: DevOptions, json: bool) -> Result<(), Failure> {
    let signals = Signals::listen()?;
    let file = DatabaseFile::choose(options.database.as_deref().map(Path::new))?;
    tokio::select! {
        done = demonstrate(&options, json, &file, signals.stop) => done,
        () = signals.stop_at_once.cancelled() => Err(Failure::Interrupted),
    }
}

async fn demonstrate(
    options: &DevOptions,
    json: bool,
    file: &DatabaseFile,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let mut show = Show::open(options, Output::to_stdout(json), file).await?;
    let deadline = options.seconds.map(|seconds| show.started + Duration::from_secs(seconds));
    show.run_until(&stop, deadline).await?;
    show.finish().await?;
    show.end().await
}

/// Everything that runs, and the screen it is shown on.
struct Show<'f> {
    file: &'f DatabaseFile,
    pool: SqlitePool,
    application: Application,
    writing: JoinHandle<Result<(), Failure>>,
    stop_writing: CancellationToken,
    subscriptions: Subscriptions,
    tally: Tally,
    output: Output,
    started: Instant,
    finishing: bool,
}

impl<'f> Show<'f> {
    async fn open(options: &DevOptions, output: Output, file: &'f DatabaseFile) -> Result<Self, Failure> {
        let pool = file.open().await?;
        let posthaste = Posthaste::sqlite(pool.clone());
        posthaste.migrate().await.map_err(|error| file.unusable(&error))?;
        let application = Application::prepare(pool.clone(), posthaste.clone()).await?;
        let tally = Tally::begin(&pool).await?;
        let subscriptions = Subscriptions::start(&posthaste, options.rate).await?;
        let stop_writing = CancellationToken::new();
        let writing = tokio::spawn(application.clone().run(options.rate, stop_writing.clone()));
        let started = Instant::now();
        Ok(Self {
            file,
            pool,
            application,
            writing,
            stop_writing,
            subscriptions,
            tally,
            output,
            started,
            finishing: false,
        })
    }

    /// Shows what happens until somebody stops it, the time is over, or the application cannot go on.
    async fn run_until(
        &mut self,
        stop: &CancellationToken,
        deadline: Option<Instant>,
    ) -> Result<(), Failure> {
        while !stop.is_cancelled() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let pause = self.look().await?;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            if self.writing.is_finished() {
                break;
            }
        }
        Ok(())
    }

    /// No new orders; what is under way may still be delivered.
    async fn finish(&mut self) -> Result<(), Failure> {
        self.stop_writing.cancel();
        (&mut self.writing).await.map_err(Failure::while_doing("go on writing orders"))??;
        self.finishing = true;
        let deadline = Instant::now() + FINISH_WITHIN;
        let mut pause = self.look().await?;
        while !self.tally.all_settled() && Instant::now() < deadline {
            tokio::time::sleep(pause).await;
            pause = self.look().await?;
        }
        Ok(())
    }

    /// Stops the workers and says what became of everything, as the store has it.
    async fn end(mut self) -> Result<(), Failure> {
        let work = self.subscriptions.stop().await;
        let facts =
            summary::Facts::gather(&self.pool, &self.application, work, self.started.elapsed()).await?;
        self.pool.close().await;
        self.output.end(&facts, self.file)?;
        Ok(())
    }

    /// Reads the store, shows it, and says how long to wait: longer if reading was slow, so that looking never
    /// becomes the main work.
    async fn look(&mut self) -> Result<Duration, Failure> {
        let before = Instant::now();
        let news = self.tally.read(&self.pool).await?;
        let elapsed = self.started.elapsed();
        self.output.tell(elapsed, news)?;
        let picture = Picture {
            elapsed,
            file: self.file.path(),
            written: self.application.written(),
            rolled_back: self.application.rolled_back(),
            counts: self.tally.counts(),
            database_errors: self.subscriptions.database_errors(),
            finishing: self.finishing,
        };
        self.output.show(&picture)?;
        Ok(LOOK_EVERY.max(before.elapsed() * 5))
    }
}
