import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import type { Chart } from '../../../bench/harness/suite.js';
import type { Ratio, Result } from '../report.js';
import { number } from '../table.js';
import type { Labels } from './cases.js';
import { keyOf, type Series } from './series.js';

// Drawn for a column of about this width, so that text is legible on a telephone; a wide screen shows
// several columns.
const WIDTH = 460;
const LINES_HEIGHT = 330;
const BAR_HEIGHT = 21;
/** Points of one x value stand beside one another, so that their whiskers do not hide each other. */
const DODGE = 5;

const FONT = '12px system-ui, sans-serif';

/** A chart as its kind asks for. */
export const plot = (chart: Chart, series: readonly Series[], labels: Labels): string =>
  chart.x === undefined
    ? barPlot(chart, series, labels)
    : chart.steps === undefined
      ? linePlot(chart, chart.x, series)
      : stepPlot(chart, chart.x, chart.steps, series);

/** Values over a number, each of which stays until the next one. */
function stepPlot({ results, label }: Chart, over: string, unit: string, series: readonly Series[]): string {
  const x = ({ params }: Result) => Number(params[over]);
  const marks = series.flatMap(({ key, colour, dash }) => {
    const data = results.filter((result) => keyOf(result) === key);
    return [
      Plot.line(data, {
        x,
        y: 'median',
        curve: 'step-after',
        stroke: colour,
        strokeWidth: 2,
        strokeDasharray: dash,
      }),
      Plot.dot(data, { x, y: 'median', r: 2, fill: colour, title: tip }),
    ];
  });
  const values = results.map(({ median }) => median);
  return draw({
    height: LINES_HEIGHT,
    marginLeft: 44,
    marginBottom: 42,
    x: { label: `${label} →`, ticks: 6 },
    y: {
      type: 'log',
      grid: true,
      label: `↑ ${unit} (logarithmic)`,
      ticks: [1, 3, 9, 33, 129, 256].filter((tick) => tick <= Math.max(...values)),
      tickFormat: String,
      tickSize: 0,
    },
    marks,
  });
}

/** From where on bars are drawn on a logarithmic scale: the small ones would be invisible. */
const WIDE = 12;

/** Bars, those of one case together, with whiskers from minimum to maximum. */
function barPlot({ results }: Chart, series: readonly Series[], { label }: Labels): string {
  const fy = ({ params }: Result) => label(params);
  const cases = [...new Set(results.map(fy))];
  const shown = series.filter(({ key }) => results.some((result) => keyOf(result) === key));
  const colours = new Map(shown.map(({ key, colour }) => [key, colour]));
  const least = Math.min(...results.map(({ min }) => min));
  const most = Math.max(...results.map(({ max }) => max));
  const wide = most > WIDE * least;
  const from = wide ? least / 1.6 : 0;
  const bars = cases.length * (shown.length + 0.5);
  return draw({
    height: bars * BAR_HEIGHT + 60,
    marginLeft: labelWidth(cases),
    marginRight: 46,
    marginTop: 8,
    marginBottom: 42,
    x: {
      type: wide ? 'log' : 'linear',
      domain: [from, most * 1.04],
      ...(wide && {
        ticks: ticks(from, most),
        tickFormat: (value: number) => (value < 1000 ? `${value}` : `${value / 1000}k`),
      }),
      grid: true,
      label: `${unitOf(results)}${wide ? ' (logarithmic)' : ''} →`,
    },
    y: { type: 'band', domain: shown.map(({ key }) => key), axis: null, padding: 0.1 },
    fy: { domain: cases, label: null, padding: 0.18 },
    marks: [
      Plot.axisFy({ anchor: 'left', label: null, tickSize: 0, dx: -4 }),
      Plot.barX(results, {
        x1: () => from,
        x2: 'median',
        y: keyOf,
        fy,
        fill: (result: Result) => colours.get(keyOf(result)) ?? 'var(--other)',
        fillOpacity: 0.8,
        title: tip,
      }),
      Plot.ruleY(results, { x1: 'min', x2: 'max', y: keyOf, fy, stroke: 'currentColor', strokeWidth: 1.2 }),
      Plot.text(results, {
        x: 'max',
        y: keyOf,
        fy,
        text: ({ median }: Result) => number(median),
        textAnchor: 'start',
        dx: 5,
        fill: 'currentColor',
      }),
      Plot.ruleX([from], { stroke: 'currentColor' }),
    ],
  });
}

/** "ns per buffer" */
const unitOf = (results: readonly Result[]): string => (results[0]?.unit ?? '').replace('/', ' per ');

/** Room for labels on the left. */
const labelWidth = (labels: readonly string[]): number =>
  Math.min(210, Math.max(...labels.map((text) => text.length)) * 6.4 + 12);

/** Lines over one parameter, with whiskers from minimum to maximum. */
function linePlot(chart: Chart, over: string, series: readonly Series[]): string {
  const shown = series.filter(({ key }) => chart.results.some((result) => keyOf(result) === key));
  const values = [...new Set(chart.results.map(({ params }) => Number(params[over])))].sort((a, b) => a - b);
  const marks = shown.flatMap(({ key, colour, dash }, i) => {
    const data = chart.results.filter((result) => keyOf(result) === key);
    const x = (result: Result) => Number(result.params[over]);
    const style = { stroke: colour, dx: (i - (shown.length - 1) / 2) * DODGE };
    return [
      Plot.ruleX(data, { x, y1: 'min', y2: 'max', ...style, strokeWidth: 1.5, strokeOpacity: 0.55 }),
      Plot.line(data, { x, y: 'median', ...style, strokeWidth: 2, strokeDasharray: dash, sort: x }),
      Plot.dot(data, { x, y: 'median', dx: style.dx, r: 3, fill: colour, title: tip }),
    ];
  });
  return draw({
    height: LINES_HEIGHT,
    marginLeft: 44,
    marginBottom: 42,
    x: { type: 'point', domain: values, label: `${chart.label ?? over} →`, padding: 0.4, tickFormat: String },
    y: {
      type: 'log',
      grid: true,
      label: `↑ ${unitOf(chart.results)} (logarithmic)`,
      ticks: ticks(
        Math.min(...chart.results.map(({ min }) => min)),
        Math.max(...chart.results.map(({ max }) => max)),
      ),
      tickFormat: String,
      tickSize: 0,
    },
    marks,
  });
}

/** 1, 2 and 5 of each decade from `min` to `max`, or the decades alone if those are many. */
export function ticks(min: number, max: number): number[] {
  const all: number[] = [];
  const steps = Math.log10(max / min) > 2 ? [1, 3] : [1, 2, 5];
  for (let exponent = Math.floor(Math.log10(min)); 10 ** exponent <= max; exponent++)
    // Not step * 10 ** exponent: that is 0.30000000000000004 for 3 and -1.
    for (const step of steps) all.push(Number(`${step}e${exponent}`));
  return all.filter((tick) => tick >= min && tick <= max);
}

const tip = ({ name, median, min, max, unit }: Result): string =>
  `${name}: ${median.toFixed(1)} ${unit} (${min.toFixed(1)} – ${max.toFixed(1)})`;

/** Ratios of one name as bars that start at 1: to the right is faster. */
export function ratioPlot(ratios: readonly Ratio[], { label }: Labels): string {
  const y = ({ params }: Ratio) => label(params);
  const targets = ratios.filter(({ reported }) => reported !== null);
  const edges = ratios.flatMap(({ min, max, reported }) => [min, max, reported ?? 1, 1]);
  const domain: [number, number] = [Math.min(...edges) * 0.9, Math.max(...edges) * 1.1];
  return draw({
    height: ratios.length * BAR_HEIGHT + 64,
    marginLeft: labelWidth(ratios.map(y)),
    marginRight: 46,
    marginTop: 14,
    marginBottom: 42,
    x: {
      type: 'log',
      domain,
      grid: true,
      label: 'slower ← 1 → faster',
      labelAnchor: 'center',
      labelArrow: 'none',
      ticks: ticks(...domain),
      tickFormat: String,
    },
    y: { type: 'band', domain: ratios.map(y), label: null, padding: 0.25 },
    marks: [
      Plot.axisY({ tickSize: 0, label: null }),
      Plot.barX(ratios, {
        x1: () => 1,
        x2: 'median',
        y,
        fill: ({ median }: Ratio) => (median >= 1 ? 'var(--faster)' : 'var(--slower)'),
      }),
      Plot.ruleY(ratios, {
        x1: 'min',
        x2: 'max',
        y,
        stroke: 'currentColor',
        strokeWidth: 1.2,
        strokeOpacity: 0.75,
      }),
      Plot.text(ratios, {
        x: ({ max, reported }: Ratio) => Math.max(max, reported ?? 1, 1),
        y,
        text: ({ median }: Ratio) => `×${median.toFixed(2)}`,
        textAnchor: 'start',
        dx: 5,
        fill: 'currentColor',
      }),
      Plot.ruleX([1], { stroke: 'currentColor', strokeWidth: 1.2 }),
      // What the proposal's author reported, where there is such a figure.
      Plot.tickX(targets, { x: 'reported', y, stroke: 'var(--target)', strokeWidth: 3 }),
    ],
  });
}

function draw(options: Plot.PlotOptions): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>');
  const svg = Plot.plot({ document, width: WIDTH, style: { font: FONT }, ...options });
  // The view box stays: the drawing is as wide as its column.
  svg.removeAttribute('width');
  svg.removeAttribute('height');
  return svg.outerHTML;
}
