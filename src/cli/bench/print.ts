import type { Ratio, Report, Result } from '../report.js';
import { number, ratio, table } from '../table.js';
import { caseLabels } from './cases.js';

/** A report as tables for the terminal. */
export function print(report: Report): string {
  const { cpu, cores, node, platform } = report.machine;
  const timed = report.results.filter(({ unit }) => unit.startsWith('ns/'));
  const others = report.results.filter(({ unit }) => !unit.startsWith('ns/'));
  const { centre, label } = caseLabels(timed.map(({ params }) => params));
  return [
    `${report.suite} · ${cpu}, ${cores} cores · Node ${node} · ${platform}`,
    `centre: ${centre}; ${number(timed[0]?.runs ?? 0)} interleaved runs`,
    resultTable(timed, label),
    ...(report.ratios.length > 0 ? [ratioTable(report.ratios, label)] : []),
    others.map(otherLine).join('\n'),
  ].join('\n\n');
}

type Label = (params: Result['params']) => string;

function resultTable(results: readonly Result[], label: Label): string {
  const rows: string[][] = [];
  let before = '';
  for (const { name, ring, params, median, min, max } of results) {
    const title = label(params);
    if (title !== before) rows.push([title, '', '', '', '', '']);
    before = title;
    rows.push([`  ${name}`, ring, number(median), number(min), number(max), number(1e3 / median)]);
  }
  return table(['', 'ring', results[0]?.unit ?? '', 'min', 'max', 'M/s'], rows);
}

/** One block for each ratio: there are too many for a column each. */
function ratioTable(ratios: readonly Ratio[], label: Label): string {
  const blocks = new Map<string, string[][]>();
  for (const found of ratios) {
    const { name, ring, params, reported } = found;
    const title = `${name.replace('/', ' / ')} · ${ring}`;
    const rows = blocks.get(title) ?? [[title, '', '']];
    rows.push([`  ${label(params)}`, ratio(found), reported === null ? '' : `×${reported}`]);
    blocks.set(title, rows);
  }
  return table(['', 'ratio (min–max)', 'reported'], [...blocks.values()].flat());
}

const otherLine = ({ name, engine, ring, unit, median, params }: Result): string =>
  `${name}, ${engine}, ${ring}: ${number(median)} ${unit} over ${number(Number(params.buffers))} buffers`;
