import type { Suite } from '../../../bench/harness/suite.js';
import type { Params, Ratio, Report, Result } from '../report.js';
import { number } from '../table.js';
import { caseLabels, paramName, paramValue } from './cases.js';
import { linePlot, ratioPlot } from './plots.js';
import { type Series, seriesOf } from './series.js';
import { STYLE } from './style.js';

/** One page that needs nothing but itself. */
export function toHtml(reports: readonly { suite: Suite; report: Report }[]): string {
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
${reports.map(({ suite, report }) => section(suite, report)).join('\n')}
</main>
</body>
</html>
`;
}

function section(suite: Suite, report: Report): string {
  const { cpu, cores, node, v8, platform } = report.machine;
  const charts = suite.charts(report);
  const series = seriesOf(charts.flatMap(({ results }) => results));
  const ratios = new Map<string, Ratio[]>();
  for (const ratio of report.ratios) {
    const title = `${ratio.name.replace('/', ' / ')}, ${ratio.ring}`;
    ratios.set(title, [...(ratios.get(title) ?? []), ratio]);
  }
  const { centre } = caseLabels(report.ratios.map(({ params }) => params));
  const measured = report.results.filter(({ unit }) => unit.startsWith('ns/'));
  const others = report.results.filter(({ unit }) => !unit.startsWith('ns/'));
  return `<section>
<h1>${escapeHtml(suite.name)}</h1>
<p class="about">${escapeHtml(suite.about)}</p>
<p class="machine">${escapeHtml(`${cpu}, ${cores} cores · Node ${node} (V8 ${v8}) · ${platform}`)}</p>
${others.length > 0 ? `<ul class="facts">${others.map(fact).join('')}</ul>` : ''}
<h2>Time per buffer</h2>
<p>Median of ${measured[0]?.runs ?? 0} interleaved runs; whiskers from the fastest to the slowest.</p>
${legend(series)}
<div class="plots">
${charts
  .filter(({ results }) => results.length > 0)
  .map((chart) => figure(chart.title, chart.subtitle, linePlot(chart, series)))
  .join('\n')}
</div>
<h2>Ratios</h2>
<p>Throughput of the first over the second, taken within each round. Centre of the sweep: ${escapeHtml(centre)};
each bar says what differs from it.${report.ratios.some(({ reported }) => reported !== null) ? ' The coloured tick is the figure that the proposal reported.' : ''}</p>
<div class="plots">
${[...ratios].map(([title, found]) => figure(title, '', ratioPlot(found))).join('\n')}
</div>
<h2>All rows</h2>
${resultTable(measured)}
${others.length > 0 ? resultTable(others) : ''}
${ratioTable(report.ratios)}
</section>`;
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
    ['ratio', 'ring', ...keys.map(paramName), 'median', 'min', 'max', 'reported'],
    ratios.map(({ name, ring, params, median, min, max, reported }) => [
      name,
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

function rows(head: readonly string[], body: readonly string[][]): string {
  const numeric = (text: string) => /^[\d.,–]+$/.test(text);
  const cells = body.map(
    (row) =>
      `<tr>${row.map((text) => `<td${numeric(text) ? ' class="n"' : ''}>${escapeHtml(text)}</td>`).join('')}</tr>`,
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
