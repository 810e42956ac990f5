import type { Command } from 'commander';
import type { Suite } from '../../bench/harness/suite.js';
import { suites } from '../../bench/registry.js';
import { compare, readReports } from './bench/compare.js';
import { print, printComparisons } from './bench/print.js';
import { Failure, UsageError } from './errors.js';
import type { Io } from './io.js';
import { Progress } from './progress.js';
import { checkWritable, type Report, toJson, writeReport } from './report.js';

export interface BenchOptions {
  quick?: boolean;
  json?: string;
  html?: string;
  compare?: string;
}

export function addBench(program: Command, io: Io): void {
  program
    .command('bench')
    .description('measure suites of contenders against each other')
    .argument(
      '[suite...]',
      `suites; all that need nothing else if none is named; \`all\` of them\n${suites.map(({ name, about }) => `${name}: ${about}`).join('\n')}`,
    )
    .option('-q, --quick', 'fewer cases and shorter runs: less than a minute per suite')
    .option('--json <file>', 'write the numbers to a file')
    .option('--html <file>', 'write a report with plots to a file')
    .option('--compare <file>', 'what changed beyond the noise since this file was written by --json')
    .action((names: string[], options: BenchOptions) => bench(choose(names, suites), options, io));
}

const ALL = 'all';

function choose(names: readonly string[], known: readonly Suite[]): readonly Suite[] {
  if (names.includes(ALL)) return known;
  if (names.length === 0) return known.filter(({ onRequest }) => !onRequest);
  return [...new Set(names)].map((name) => {
    const suite = known.find((candidate) => candidate.name === name);
    if (suite === undefined)
      throw new UsageError(
        `unknown suite '${name}'; there are: ${[...known.map((candidate) => candidate.name), ALL].join(', ')}`,
      );
    return suite;
  });
}

export async function bench(chosen: readonly Suite[], options: BenchOptions, io: Io): Promise<void> {
  await checkWritable(options.json);
  await checkWritable(options.html);
  const old = options.compare === undefined ? undefined : await readReports(options.compare);
  const reports: { suite: Suite; report: Report }[] = [];
  for (const [i, suite] of chosen.entries()) {
    const name = chosen.length === 1 ? suite.name : `${suite.name} (${i + 1} of ${chosen.length})`;
    let progress: Progress | undefined;
    try {
      const report = await suite.run(
        { quick: options.quick ?? false },
        {
          start: (steps) => {
            progress = new Progress(io, name, steps);
          },
          step: (note) => progress?.step(note),
        },
      );
      reports.push({ suite, report });
    } catch (error) {
      // What a suite needs beside this package may be missing: no reason to lose what the others found.
      if (!suite.onRequest || chosen.length === 1 || !(error instanceof Failure)) throw error;
      io.err(`${suite.name}: left out: ${error.message}`);
      continue;
    } finally {
      progress?.stop();
    }
    io.out(`${print(suite, reports[reports.length - 1].report)}\n`);
  }
  const all = reports.map(({ report }) => report);
  const comparisons = old && compare(old, all);
  if (options.compare !== undefined && comparisons !== undefined)
    io.out(`${printComparisons(options.compare, reports, comparisons)}\n`);
  if (options.json !== undefined) {
    await writeReport(options.json, toJson(all.length === 1 ? all[0] : all));
  }
  if (options.html !== undefined) {
    // Loaded on demand: the plots bring a document model and a charting library.
    const { toHtml } = await import('./bench/html.js');
    await writeReport(options.html, toHtml(reports, comparisons));
  }
}
