//! Two values of each contender on one line of a logarithmic scale: a dot for the usual, a ring for the rare one.

use super::frame::{self, Key, MARGIN, RULE, SMALL, STEP, Sign, VALUE, WIDTH};
use super::number;
use super::svg::{Side, Svg};
use crate::measure::Role;

const RADIUS: f64 = 5.0;

/// One contender.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) usual: f64,
    pub(super) rare: f64,
}

/// A chart of pairs.
#[derive(Debug)]
pub(super) struct Dots {
    pub(super) title: &'static str,
    pub(super) subtitle: String,
    /// What the dot and the ring are.
    pub(super) usual: &'static str,
    pub(super) rare: &'static str,
    pub(super) pairs: Vec<Pair>,
}

/// From values to places, ten times as much one step to the right. What is below the first step stands on it.
#[derive(Debug, Clone, Copy)]
struct Scale {
    left: f64,
    decade: f64,
    first: i32,
    last: i32,
}

impl Scale {
    fn over(values: &[f64], left: f64, width: f64) -> Self {
        let exponents = || values.iter().filter(|value| **value > 0.0).map(|value| value.log10());
        let (low, high) =
            (exponents().fold(f64::INFINITY, f64::min), exponents().fold(f64::NEG_INFINITY, f64::max));
        #[expect(clippy::cast_possible_truncation, reason = "exponents of times and bytes")]
        let (first, last) = if low.is_finite() { (low.floor() as i32, high.ceil() as i32) } else { (0, 1) };
        let last = last.max(first + 1);
        Self { left, decade: width / f64::from(last - first), first, last }
    }

    fn at(self, value: f64) -> f64 {
        let first = f64::from(self.first);
        let exponent = if value > 0.0 { value.log10().max(first) } else { first };
        self.left + (exponent - first) * self.decade
    }
}

impl Dots {
    pub(super) fn draw(&self) -> String {
        let mut svg = Svg::default();
        let top = frame::top(&mut svg, self.title, &self.subtitle, &self.keys());
        let bottom = top + STEP * self.pairs.len().max(1) as f64;
        let names = frame::left(self.pairs.iter().map(|pair| pair.name.as_str()));
        let scale = self.scale(names);
        for exponent in scale.first..=scale.last {
            let value = 10_f64.powi(exponent);
            svg.line((scale.at(value), top), (scale.at(value), bottom), RULE, "");
            svg.words((scale.at(value), bottom + 16.0), Side::Middle, SMALL, &number(value));
        }
        for (at, pair) in self.pairs.iter().enumerate() {
            draw(&mut svg, (names, top + STEP * (at as f64 + 0.5)), scale, pair);
        }
        if self.pairs.is_empty() {
            svg.words((scale.left + 10.0, top + 18.0), Side::Right, VALUE, "nobody was measured");
        }
        svg.finish((WIDTH, (bottom + 32.0).round()), self.title, &self.in_words())
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = frame::roles(self.pairs.iter().map(|pair| pair.role));
        keys.push(Key { sign: Sign::Dot, words: self.usual });
        keys.push(Key { sign: Sign::Ring, words: self.rare });
        keys
    }

    /// With room for a value on both sides.
    fn scale(&self, names: f64) -> Scale {
        let values: Vec<f64> = self.pairs.iter().flat_map(|pair| [pair.usual, pair.rare]).collect();
        let widest = values.iter().map(|value| VALUE.width(&number(*value))).fold(0.0, f64::max);
        let beside = widest + RADIUS + 10.0;
        Scale::over(&values, names + beside, WIDTH - MARGIN - names - 2.0 * beside)
    }

    fn in_words(&self) -> String {
        let pair = |pair: &Pair| {
            let (usual, rare) = (number(pair.usual), number(pair.rare));
            format!("{}: {} {usual}, {} {rare}", pair.name, self.usual, self.rare)
        };
        format!("{}. {}.", self.subtitle, self.pairs.iter().map(pair).collect::<Vec<_>>().join("; "))
    }
}

fn draw(svg: &mut Svg, (names, y): (f64, f64), scale: Scale, pair: &Pair) {
    let (colour, usual, rare) = (frame::colour(pair.role), scale.at(pair.usual), scale.at(pair.rare));
    frame::name(svg, (names, y), pair.role, &pair.name);
    svg.line((usual, y), (rare, y), colour, " stroke-width=\"3\" stroke-opacity=\"0.5\"");
    svg.circle((rare, y), RADIUS, "#ffffff", colour);
    svg.circle((usual, y), RADIUS, colour, colour);
    let beside = RADIUS + 6.0;
    svg.words((usual.min(rare) - beside, y + 4.5), Side::Left, VALUE, &number(pair.usual));
    svg.words((usual.max(rare) + beside, y + 4.5), Side::Right, VALUE, &number(pair.rare));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_much_is_one_step_to_the_right() {
        let scale = Scale::over(&[0.4, 30.0], 100.0, 300.0);
        let places = [0.1, 1.0, 10.0, 100.0].map(|value| scale.at(value).round());
        assert_eq!(places, [100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn nothing_stands_at_the_left_end() {
        let scale = Scale::over(&[0.0, 5.0, 10.0], 100.0, 300.0);
        assert_eq!([0.0, 1.0, 10.0].map(|value| scale.at(value)), [100.0, 100.0, 400.0]);
        assert_eq!(Scale::over(&[], 100.0, 300.0).at(0.0), 100.0);
    }
}
