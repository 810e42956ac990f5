import type { Suite } from '../../../bench/harness/suite.js';
import { isFact, type Params, type Ratio, type Report, type Result } from '../report.js';
import { number } from '../table.js';
import { ambiguous, type Labels, labelsOf, paramName, paramValue, ratioTitle } from './cases.js';
import { type Comparison, changeTitle, figure as figureText, gain, summary } from './compare.js';
import { plot, ratioPlot } from './plots.js';
import { type Series, seriesOf } from './series.js';
import { STYLE } from './style.js';

/** One page that needs nothing but itself. */
export function toHtml(
  reports: readonly { suite: Suite; report: Report }[],
  comparisons: readonly Comparison[] = [],
): string {
  const title = `vring: ${reports.map(({ suite }) => suite.name).join(', ')}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${contents(reports)}${reports
  .map(({ suite, report }) =>
    section(
      suite,
      report,
      comparisons.find((comparison) => comparison.suite === suite.name),
    ),
  )
  .join('\n')}
</main>
</body>
</html>
`;
}

/** Where there are several suites. */
const contents = (reports: readonly { suite: Suite }[]): string =>
  reports.length < 2
    ? ''
    : `<p class="contents">${reports.map(({ suite: { name, about } }) => `<b>${escapeHtml(name)}</b> ${escapeHtml(about)}`).join('<br>')}</p>\n`;

function section(suite: Suite, report: Report, comparison: Comparison | undefined): string {
  const { cpu, cores, node, v8, platform } = report.machine;
  const charts = suite.charts(report);
  const series = seriesOf(charts.flatMap(({ results }) => results));
  const unclear = ambiguous(report.ratios);
  const ratios = new Map<string, Ratio[]>();
  for (const ratio of report.ratios) {
    const title = ratioTitle(ratio, unclear(ratio.name));
    ratios.set(title, [...(ratios.get(title) ?? []), ratio]);
  }
  const measured = report.results.filter(({ unit }) => unit.startsWith('ns/'));
  const others = report.results.filter(isFact);
  const labels = labelsOf(
    suite,
    [...measured, ...report.ratios].map(({ params }) => params),
  );
  return `<section>
<h1>${escapeHtml(suite.name)}</h1>
<p class="about">${escapeHtml(suite.about)}</p>
<p class="machine">${escapeHtml(`${cpu}, ${cores} cores · Node ${node} (V8 ${v8}) · ${platform}`)}</p>
${comparison === undefined ? '' : comparisonPart(comparison, labels)}
${others.length > 0 ? `<ul class="facts">${others.map(fact).join('')}</ul>` : ''}
<h2>Time per buffer</h2>
<p>Median of ${measured[0]?.runs ?? 0} interleaved runs; whiskers from the fastest to the slowest.</p>
${legend(series)}
<div class="plots">
${charts
  .filter(({ results }) => results.length > 0)
  .map((chart) => figure(chart.title, chart.subtitle, plot(chart, series, labels)))
  .join('\n')}
</div>
<h2>Ratios</h2>
<p>Throughput of the first over the second, taken within each round.${
    labels.centre === undefined
      ? ''
      : ` Centre of the sweep: ${escapeHtml(labels.centre)};
each bar says what differs from it.`
  }${report.ratios.some(({ reported }) => reported !== null) ? ' The coloured tick is the figure that the proposal reported.' : ''}</p>
<div class="plots">
${[...ratios].map(([title, found]) => figure(title, '', ratioPlot(found, labels))).join('\n')}
</div>
<h2>All rows</h2>
${resultTable(measured)}
${others.length > 0 ? resultTable(others) : ''}
${ratioTable(report.ratios)}
</section>`;
}

/** What changed since the report that this one is compared with. */
function comparisonPart(comparison: Comparison, { label }: Labels): string {
  const { changes } = comparison;
  return `<h2>Compared with before</h2>
<p>${escapeHtml(summary(comparison))}. A figure changed if the ranges of its runs, before and now, do not overlap.</p>
${
  changes.length === 0
    ? ''
    : rows(
        ['change', 'figure', 'case', 'before (min–max)', 'now (min–max)'],
        changes.map((change) => [
          gain(change),
          changeTitle(change),
          label(change.params),
          figureText(change, change.before),
          figureText(change, change.after),
        ]),
        changes.map((change) => (change.gain >= 1 ? 'better' : 'worse')),
      )
}`;
}

const fact = ({ name, engine, ring, median, unit, params }: Result): string =>
  `<li>${escapeHtml(`${name}, ${engine}, ${ring}`)}: <b>${number(median)} ${escapeHtml(unit)}</b> over ${number(Number(params.buffers))} buffers</li>`;

const figure = (title: string, subtitle: string, svg: string): string =>
  `<figure><figcaption><b>${escapeHtml(title)}</b>${subtitle && `<br>${escapeHtml(subtitle)}`}</figcaption>${svg}</figure>`;

const legend = (series: readonly Series[]): string =>
  `<ul class="legend">${series
    .map(
      ({ label, colour, dash }) =>
        `<li><svg viewBox="0 0 30 10" aria-hidden="true"><path d="M0,5H30" stroke="${colour}" stroke-width="2.5" stroke-dasharray="${dash}"/><circle cx="15" cy="5" r="3.5" fill="${colour}"/></svg>${escapeHtml(label)}</li>`,
    )
    .join('')}</ul>`;

function resultTable(results: readonly Result[]): string {
  const keys = keysOf(results);
  return rows(
    ['contender', 'engine', 'ring', ...keys.map(paramName), 'median', 'min', 'max', 'unit', 'runs'],
    results.map(({ name, engine, ring, params, median, min, max, unit, runs }) => [
      name,
      engine,
      ring,
      ...values(params, keys),
      number(median),
      number(min),
      number(max),
      unit,
      number(runs),
    ]),
  );
}

function ratioTable(ratios: readonly Ratio[]): string {
  const keys = keysOf(ratios);
  return rows(
    ['ratio', 'engine', 'ring', ...keys.map(paramName), 'median', 'min', 'max', 'reported'],
    ratios.map(({ name, engine, ring, params, median, min, max, reported }) => [
      name,
      engine,
      ring,
      ...values(params, keys),
      ...[median, min, max].map((value) => value.toFixed(2)),
      reported === null ? '–' : `${reported}`,
    ]),
  );
}

const keysOf = (from: readonly { params: Params }[]): string[] => [
  ...new Set(from.flatMap(({ params }) => Object.keys(params))),
];

const values = (params: Params, keys: readonly string[]): string[] =>
  keys.map((key) => (params[key] === undefined ? '' : paramValue(params[key])));

/** @param classes of the rows */
function rows(head: readonly string[], body: readonly string[][], classes: readonly string[] = []): string {
  const numeric = (text: string) => /^(×?[\d.,]+|–|[+−]\d+ %)$/.test(text);
  const cells = body.map(
    (row, i) =>
      `<tr${classes[i] === undefined ? '' : ` class="${classes[i]}"`}>${row.map((text) => `<td${numeric(text) ? ' class="n"' : ''}>${escapeHtml(text)}</td>`).join('')}</tr>`,
  );
  return `<div class="scroll"><table>
<thead><tr>${head.map((text) => `<th>${escapeHtml(text)}</th>`).join('')}</tr></thead>
<tbody>
${cells.join('\n')}
</tbody>
</table></div>`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character]);
