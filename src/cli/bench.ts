import type { Command } from 'commander';
import type { Suite } from '../../bench/harness/suite.js';
import { suites } from '../../bench/registry.js';
import { print } from './bench/print.js';
import { UsageError } from './errors.js';
import type { Io } from './io.js';
import { Progress } from './progress.js';
import { checkWritable, type Report, toJson, writeReport } from './report.js';

export interface BenchOptions {
  quick?: boolean;
  json?: string;
  html?: string;
}

export function addBench(program: Command, io: Io): void {
  program
    .command('bench')
    .description('measure suites of contenders against each other')
    .argument(
      '[suite...]',
      `suites (default: all that need nothing else)\n${suites.map(({ name, about }) => `${name}: ${about}`).join('\n')}`,
    )
    .option('-q, --quick', 'fewer cases and shorter runs: less than a minute per suite')
    .option('--json <file>', 'write the numbers to a file')
    .option('--html <file>', 'write a report with plots to a file')
    .action((names: string[], options: BenchOptions) => bench(choose(names, suites), options, io));
}

function choose(names: readonly string[], known: readonly Suite[]): readonly Suite[] {
  if (names.length === 0) return known.filter(({ onRequest }) => !onRequest);
  return [...new Set(names)].map((name) => {
    const suite = known.find((candidate) => candidate.name === name);
    if (suite === undefined)
      throw new UsageError(
        `unknown suite '${name}'; there are: ${known.map((candidate) => candidate.name).join(', ')}`,
      );
    return suite;
  });
}

export async function bench(chosen: readonly Suite[], options: BenchOptions, io: Io): Promise<void> {
  await checkWritable(options.json);
  await checkWritable(options.html);
  const reports: { suite: Suite; report: Report }[] = [];
  for (const suite of chosen) {
    let progress: Progress | undefined;
    try {
      const report = await suite.run(
        { quick: options.quick ?? false },
        {
          start: (steps) => {
            progress = new Progress(io, suite.name, steps);
          },
          step: (note) => progress?.step(note),
        },
      );
      reports.push({ suite, report });
    } finally {
      progress?.stop();
    }
    io.out(`${print(reports[reports.length - 1].report)}\n`);
  }
  if (options.json !== undefined) {
    const all = reports.map(({ report }) => report);
    await writeReport(options.json, toJson(all.length === 1 ? all[0] : all));
  }
  if (options.html !== undefined) {
    // Loaded on demand: the plots bring a document model and a charting library.
    const { toHtml } = await import('./bench/html.js');
    await writeReport(options.html, toHtml(reports));
  }
}
