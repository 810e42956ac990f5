import type { Params, Ratio, Report, Result } from '../report.js';
import { type Cell, number, ratio, table } from '../table.js';
import { paramName, paramValue } from './cases.js';

/** A report as tables for the terminal. */
export function print(report: Report): string {
  const { cpu, cores, node, platform } = report.machine;
  const timed = report.results.filter(({ unit }) => unit === 'ns/buffer');
  const others = report.results.filter(({ unit }) => unit !== 'ns/buffer');
  return [
    `${report.suite} · ${cpu}, ${cores} cores · Node ${node} · ${platform}`,
    ...(timed.length > 0 ? [resultTable(timed)] : []),
    ...(report.ratios.length > 0 ? [ratioTable(report.ratios)] : []),
    ...others.map(otherLine),
  ].join('\n\n');
}

function resultTable(results: readonly Result[]): string {
  const keys = Object.keys(results[0].params);
  const rows: Cell[][] = [];
  let before = '';
  for (const { name, ring, params, median, min, max } of results) {
    const now = JSON.stringify([ring, params]);
    // Said once per group of rows.
    const shown = now === before ? keys.map(() => '') : keys.map((key) => paramValue(params[key]));
    before = now;
    rows.push([name, ...shown, number(median), number(min), number(max), number(1e3 / median)]);
  }
  return table(['contender', ...keys.map(paramName), 'ns/buffer', 'min', 'max', 'M buffers/s'], rows);
}

function ratioTable(ratios: readonly Ratio[]): string {
  const keys = Object.keys(ratios[0].params);
  const names = [...new Set(ratios.map(({ name }) => name))];
  const rows = new Map<string, { params: Params; cells: Map<string, string> }>();
  for (const found of ratios) {
    const key = JSON.stringify([found.ring, found.params]);
    const row = rows.get(key) ?? { params: found.params, cells: new Map() };
    const reported = found.reported === null ? '' : `, reported ×${found.reported}`;
    row.cells.set(found.name, ratio(found) + reported);
    rows.set(key, row);
  }
  return table(
    [...keys.map(paramName), ...names.map((name) => name.replace('/', ' /\n'))],
    [...rows.values()].map(({ params, cells }) => [
      ...keys.map((key) => paramValue(params[key])),
      ...names.map((name) => cells.get(name) ?? ''),
    ]),
    0,
  );
}

const otherLine = ({ name, engine, unit, median, params }: Result): string =>
  `${name}, ${engine}: ${number(median)} ${unit} over ${number(Number(params.buffers))} buffers`;
