import type { Suite } from '../../../bench/harness/suite.js';
import { isFact, type Ratio, type Report, type Result } from '../report.js';
import { number, ratio, table } from '../table.js';
import { ambiguous, labelsOf, ratioTitle } from './cases.js';
import { type Change, type Comparison, changeTitle, figure, gain, summary } from './compare.js';

/** A report as tables for the terminal. */
export function print(suite: Suite, report: Report): string {
  const { cpu, cores, node, platform } = report.machine;
  const timed = report.results.filter(({ unit }) => unit.startsWith('ns/'));
  const others = report.results.filter(isFact);
  const { centre, label } = labelsOf(
    suite,
    timed.map(({ params }) => params),
  );
  return [
    `${report.suite} · ${cpu}, ${cores} cores · Node ${node} · ${platform}`,
    `${centre === undefined ? '' : `centre: ${centre}; `}${number(timed[0]?.runs ?? 0)} interleaved runs`,
    resultTable(timed, label),
    ...(report.ratios.length > 0 ? [ratioTable(report.ratios, label)] : []),
    others.map(otherLine).join('\n'),
  ].join('\n\n');
}

type Label = (params: Result['params']) => string;

function resultTable(results: readonly Result[], label: Label): string {
  const rows: string[][] = [];
  const unclear = ambiguous(results);
  let before = '';
  for (const { name, engine, ring, params, median, min, max } of results) {
    const title = label(params);
    if (title !== before) rows.push([title, '', '', '', '', '']);
    before = title;
    const who = unclear(name) ? `${name}, ${engine}` : name;
    rows.push([`  ${who}`, ring, number(median), number(min), number(max), number(1e3 / median)]);
  }
  return table(['', 'ring', results[0]?.unit ?? '', 'min', 'max', 'M/s'], rows);
}

/** One block for each ratio: there are too many for a column each. */
function ratioTable(ratios: readonly Ratio[], label: Label): string {
  const blocks = new Map<string, string[][]>();
  const unclear = ambiguous(ratios);
  for (const found of ratios) {
    const { name, params, reported } = found;
    const title = ratioTitle(found, unclear(name));
    const rows = blocks.get(title) ?? [[title, '', '']];
    rows.push([`  ${label(params)}`, ratio(found), reported === null ? '' : `×${reported}`]);
    blocks.set(title, rows);
  }
  return table(['', 'ratio (min–max)', 'reported'], [...blocks.values()].flat());
}

const otherLine = ({ name, engine, ring, unit, median, params }: Result): string =>
  `${name}, ${engine}, ${ring}: ${number(median)} ${unit} over ${number(Number(params.buffers))} buffers`;

/** What changed since the file was written. */
export function printComparisons(
  file: string,
  reports: readonly { suite: Suite; report: Report }[],
  comparisons: readonly Comparison[],
): string {
  const parts = [`compared with ${file}: changed is what has no run in common with the range of before`];
  for (const { suite } of reports) {
    const found = comparisons.find((comparison) => comparison.suite === suite.name);
    if (found === undefined) {
      parts.push(`${suite.name}: not in that file`);
      continue;
    }
    parts.push(`${suite.name}: ${summary(found)}`);
    if (found.changes.length > 0) parts.push(changeTable(suite, found.changes));
  }
  return parts.join('\n\n');
}

function changeTable(suite: Suite, changes: readonly Change[]): string {
  const { label } = labelsOf(
    suite,
    changes.map(({ params }) => params),
  );
  return table(
    ['', 'before (min–max)', 'now (min–max)', 'change'],
    changes.flatMap((change) => [
      [changeTitle(change), '', '', ''],
      [
        `  ${label(change.params)}`,
        figure(change, change.before),
        figure(change, change.after),
        gain(change),
      ],
    ]),
  );
}
