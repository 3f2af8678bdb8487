//! Horizontal bars, each as long as its value, with the value at the end.

use super::frame::{self, Key, LIGHT, MARGIN, RULE, SMALL, STEP, VALUE, WIDTH};
use super::svg::{Side, Svg};
use crate::measure::Role;

const THICK: f64 = 15.0;

/// One bar.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) role: Role,
    /// One after the other; the last in the full colour, those before it lighter.
    pub(super) parts: Vec<f64>,
    pub(super) spread: Option<(f64, f64)>,
    /// What stands at the end.
    pub(super) value: String,
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().sum()
    }

    fn reach(&self) -> f64 {
        self.spread.map_or(0.0, |(_, most)| most).max(self.length())
    }
}

/// A chart of bars.
#[derive(Debug)]
pub(super) struct Bars {
    pub(super) title: &'static str,
    pub(super) subtitle: String,
    pub(super) keys: Vec<Key>,
    pub(super) bars: Vec<Bar>,
    /// A value to compare with, and what it is.
    pub(super) mark: Option<(f64, &'static str)>,
}

/// From values to places.
#[derive(Debug, Clone, Copy)]
struct Scale {
    left: f64,
    per_unit: f64,
}

impl Scale {
    fn at(self, value: f64) -> f64 {
        self.left + value * self.per_unit
    }
}

impl Bars {
    pub(super) fn draw(&self) -> String {
        let mut svg = Svg::default();
        let top = frame::top(&mut svg, self.title, &self.subtitle, &self.keys);
        let top = if self.mark.is_some() { top + 14.0 } else { top };
        let (scale, bottom) = (self.scale(), top + STEP * self.bars.len().max(1) as f64);
        svg.line((scale.left, top), (scale.left, bottom), RULE, "");
        for (at, bar) in self.bars.iter().enumerate() {
            self.bar(&mut svg, scale, top + STEP * (at as f64 + 0.5), bar);
        }
        if let Some((value, words)) = self.mark {
            let x = scale.at(value);
            svg.line((x, top - 4.0), (x, bottom), frame::FAINT, " stroke-dasharray=\"4 3\"");
            svg.words((x, top - 10.0), Side::Middle, SMALL, words);
        }
        if self.bars.is_empty() {
            svg.words((scale.left + 10.0, top + 18.0), Side::Right, VALUE, "nobody was measured");
        }
        svg.finish((WIDTH, (bottom + 20.0).round()), self.title, &self.in_words())
    }

    /// The longest one and the value at its end fit in.
    fn scale(&self) -> Scale {
        let left = frame::left(self.bars.iter().map(|bar| bar.name.as_str()));
        let value = self.bars.iter().map(|bar| VALUE.width(&bar.value)).fold(0.0, f64::max);
        let room = WIDTH - MARGIN - left - value - 10.0;
        let longest =
            self.bars.iter().map(Bar::reach).fold(self.mark.map_or(0.0, |(value, _)| value), f64::max);
        Scale { left, per_unit: if longest > 0.0 { room / longest } else { 0.0 } }
    }

    fn bar(&self, svg: &mut Svg, scale: Scale, y: f64, bar: &Bar) {
        frame::name(svg, (scale.left, y), bar.role, &bar.name);
        let mut from = 0.0;
        for (at, part) in bar.parts.iter().enumerate() {
            let look = if at + 1 < bar.parts.len() { LIGHT } else { "" };
            let size = (part * scale.per_unit, THICK);
            svg.rectangle((scale.at(from), y - THICK / 2.0), size, frame::colour(bar.role), look);
            from += part;
        }
        if let Some((least, most)) = bar.spread {
            frame::spread(svg, (scale.at(least), scale.at(most)), y);
        }
        svg.words((self.beside(scale, bar), y + 4.5), Side::Right, VALUE, &bar.value);
    }

    /// Where the value begins: after the bar, and not on the mark.
    fn beside(&self, scale: Scale, bar: &Bar) -> f64 {
        let after = scale.at(bar.reach()) + 8.0;
        let mark = self.mark.map(|(value, _)| scale.at(value));
        let hit = |mark: &f64| (after - 5.0..after + VALUE.width(&bar.value) + 5.0).contains(mark);
        mark.filter(hit).map_or(after, |mark| mark + 8.0)
    }

    fn in_words(&self) -> String {
        let bars: Vec<String> = self.bars.iter().map(|bar| format!("{}: {}", bar.name, bar.value)).collect();
        format!("{}. {}.", self.subtitle, bars.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, parts: &[f64], spread: Option<(f64, f64)>) -> Bar {
        let value = format!("{} in all", parts.iter().sum::<f64>());
        Bar { name: name.to_owned(), role: Role::Peer, parts: parts.to_vec(), spread, value }
    }

    fn chart(bars: Vec<Bar>, mark: Option<(f64, &'static str)>) -> String {
        Bars { title: "Title", subtitle: "Subtitle".to_owned(), keys: Vec::new(), bars, mark }.draw()
    }

    /// An attribute of every element that begins like this, without the card.
    fn attributes(svg: &str, element: &str, name: &str) -> Vec<f64> {
        let lines = svg.lines().filter(|line| line.starts_with(element) && !line.contains(" rx="));
        let value = |line: &str| line.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok();
        lines.filter_map(value).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg =
            chart(vec![bar("a", &[400.0], None), bar("b", &[100.0], None), bar("c", &[0.0], None)], None);
        let [a, b, c] = attributes(&svg, "<rect", "width")[..] else { panic!("{svg}") };
        assert!(a > 300.0 && (a - 4.0 * b).abs() < 0.3 && c == 0.0, "{a} {b} {c}");
    }

    #[test]
    fn parts_follow_each_other_and_the_spread_lies_on_the_same_scale() {
        let svg = chart(vec![bar("a", &[300.0, 100.0], Some((200.0, 500.0)))], None);
        let (starts, widths) = (attributes(&svg, "<rect", "x"), attributes(&svg, "<rect", "width"));
        assert!((starts[0] + widths[0] - starts[1]).abs() < 0.2 && (widths[0] - 3.0 * widths[1]).abs() < 0.4);
        // After the axis comes the line of the spread.
        let (from, to) = (attributes(&svg, "<line", "x1")[1], attributes(&svg, "<line", "x2")[1]);
        assert!(
            (from - starts[0] - 2.0 * widths[1]).abs() < 0.4
                && (to - starts[0] - 5.0 * widths[1]).abs() < 0.6
        );
    }

    #[test]
    fn a_value_does_not_stand_on_the_mark() {
        let bars = [10.0, 95.0, 120.0].map(|length| bar("a", &[length], None)).to_vec();
        let svg = chart(bars, Some((100.0, "100 %")));
        let mark = attributes(&svg, "<line", "x1")[1];
        let values = svg.lines().filter(|line| line.contains("in all</text>")).collect::<Vec<_>>().join("\n");
        let starts = attributes(&values, "<text", "x");
        assert_eq!(starts.len(), 3, "{svg}");
        let ends = starts.iter().map(|start| start + VALUE.width("120 in all"));
        assert!(starts.iter().zip(ends).all(|(start, end)| *start > mark || end < mark), "{mark} {starts:?}");
    }

    #[test]
    fn a_chart_tells_in_words_what_it_shows() {
        let svg = chart(vec![bar("a < b", &[4.0], None)], None);
        assert!(svg.contains(" role=\"img\" ") && svg.contains("<title id=\"title\">Title</title>"), "{svg}");
        assert!(svg.contains(">Subtitle. a &lt; b: 4 in all.</desc>"), "{svg}");
        assert!(chart(Vec::new(), None).contains(">nobody was measured</text>"));
    }
}
