//! What every chart has around its middle: title, subtitle, keys to the colours, and the names on the left.

use super::svg::{Face, Side, Svg};
use crate::measure::{Better, Figure, Role};

pub(super) const WIDTH: f64 = 720.0;
pub(super) const MARGIN: f64 = 24.0;
/// From one contender to the next.
pub(super) const STEP: f64 = 27.0;

const INK: &str = "#1f2328";
pub(super) const FAINT: &str = "#59636e";
/// Axes and whatever is only there to be compared with.
pub(super) const RULE: &str = "#c9d0d7";

const TITLE: Face = Face { size: 16.0, colour: INK, bold: true };
const SUBTITLE: Face = Face { size: 12.0, colour: FAINT, bold: false };
pub(super) const NAME: Face = Face { size: 12.5, colour: INK, bold: false };
pub(super) const VALUE: Face = Face { size: 12.5, colour: INK, bold: false };
pub(super) const SMALL: Face = Face { size: 11.5, colour: FAINT, bold: false };

/// The widest column of names: the rest belongs to what is measured.
const NAMES: f64 = 280.0;

pub(super) fn colour(role: Role) -> &'static str {
    match role {
        Role::Ours => "#3f88bd",
        Role::Limit => "#a9b2bb",
        Role::Peer => "#d8ab69",
    }
}

/// A sign, and what it means.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) sign: Sign,
    pub(super) words: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sign {
    Box(&'static str),
    /// The lighter form of a box.
    Light(&'static str),
    Spread,
    Dot,
    Ring,
}

/// One key for every role that is there.
pub(super) fn roles(there: impl Iterator<Item = Role>) -> Vec<Key> {
    let there: Vec<Role> = there.collect();
    [(Role::Ours, "Posthaste"), (Role::Limit, "limit: the least anybody has to do"), (Role::Peer, "peers")]
        .into_iter()
        .filter(|(role, _)| there.contains(role))
        .map(|(role, words)| Key { sign: Sign::Box(colour(role)), words })
        .collect()
}

/// `(events/s, more is better)`, on one line.
pub(super) fn unit(figure: &Figure) -> String {
    let better = if figure.better == Better::More { "more" } else { "less" };
    format!("({}, {better} is better)", figure.unit).replace(' ', "\u{a0}")
}

/// Draws what stands above the middle, and gives where the middle begins.
pub(super) fn top(svg: &mut Svg, title: &str, subtitle: &str, keys: &[Key]) -> f64 {
    let mut y = 36.0;
    svg.words((MARGIN, y), Side::Right, TITLE, title);
    for line in SUBTITLE.wrap(subtitle, WIDTH - 2.0 * MARGIN) {
        y += if y == 36.0 { 21.0 } else { 16.0 };
        svg.words((MARGIN, y), Side::Right, SUBTITLE, &line);
    }
    let (mut x, mut line) = (MARGIN, y + 26.0);
    for key in keys {
        let width = 20.0 + SMALL.width(key.words);
        if x + width > WIDTH - MARGIN && x > MARGIN {
            (x, line) = (MARGIN, line + 19.0);
        }
        sign(svg, (x, line - 4.0), key.sign);
        svg.words((x + 20.0, line), Side::Right, SMALL, key.words);
        x += width + 16.0;
    }
    line + 18.0
}

fn sign(svg: &mut Svg, (x, y): (f64, f64), sign: Sign) {
    match sign {
        Sign::Box(colour) => svg.rectangle((x, y - 6.0), (13.0, 12.0), colour, " rx=\"2\""),
        Sign::Light(colour) => {
            svg.rectangle((x, y - 6.0), (13.0, 12.0), colour, &format!("{LIGHT} rx=\"2\""))
        }
        Sign::Spread => spread(svg, (x, x + 13.0), y),
        Sign::Dot => svg.circle((x + 7.0, y), 5.0, FAINT, FAINT),
        Sign::Ring => svg.circle((x + 7.0, y), 5.0, "#ffffff", FAINT),
    }
}

/// The lighter form of a colour.
pub(super) const LIGHT: &str = " fill-opacity=\"0.45\"";

/// A thin line from the smallest to the largest, with an end on both sides.
pub(super) fn spread(svg: &mut Svg, (from, to): (f64, f64), y: f64) {
    svg.line((from, y), (to, y), INK, " stroke-width=\"1.2\"");
    for x in [from, to] {
        svg.line((x, y - 3.5), (x, y + 3.5), INK, " stroke-width=\"1.2\"");
    }
}

/// Where the middle begins to the right of the names.
pub(super) fn left<'n>(names: impl Iterator<Item = &'n str>) -> f64 {
    let bold = Face { bold: true, ..NAME };
    MARGIN + names.map(|name| bold.width(name)).fold(0.0, f64::max).min(NAMES) + 10.0
}

/// A name left of the middle; ours in bold.
pub(super) fn name(svg: &mut Svg, (left, y): (f64, f64), role: Role, name: &str) {
    let face = Face { bold: role == Role::Ours, ..NAME };
    svg.words((left - 10.0, y + 4.5), Side::Left, face, &face.fit(name, left - 10.0 - MARGIN));
}
