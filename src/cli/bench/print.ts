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
    const title = `${label(params)} · ${ring}`;
    if (title !== before) rows.push([title, '', '', '', '']);
    before = title;
    rows.push([`  ${name}`, number(median), number(min), number(max), number(1e3 / median)]);
  }
  return table(['', results[0]?.unit ?? '', 'min', 'max', 'M/s'], rows);
}

function ratioTable(ratios: readonly Ratio[], label: Label): string {
  const names = [...new Set(ratios.map(({ name }) => name))];
  const rows = new Map<string, string[]>();
  for (const found of ratios) {
    const key = `${label(found.params)} · ${found.ring}`;
    const row = rows.get(key) ?? [key, ...names.map(() => '')];
    const reported = found.reported === null ? '' : `, reported ×${found.reported}`;
    row[1 + names.indexOf(found.name)] = ratio(found) + reported;
    rows.set(key, row);
  }
  return table(['', ...names.map((name) => name.replace('/', ' /\n'))], [...rows.values()]);
}

const otherLine = ({ name, engine, unit, median, params }: Result): string =>
  `${name}, ${engine}: ${number(median)} ${unit} over ${number(Number(params.buffers))} buffers`;
