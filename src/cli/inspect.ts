import { type Command, Option } from 'commander';
import { print } from './inspect/print.js';
import { inspectFile, type SourceOptions } from './inspect/source.js';
import type { Io } from './io.js';
import { count, offset } from './options.js';
import { writeReport } from './report.js';

interface InspectOptions extends SourceOptions {
  json?: string | true;
}

export function addInspect(program: Command, io: Io): void {
  program
    .command('inspect')
    .description('show a saved queue, or a ring as it lies in memory')
    .argument(
      '<file>',
      'what queue.save() gave (JSON); a dump {ring, size, desc, avail, used} or {ring, size, desc, driver, device} ' +
        'with the areas in hex, or a trace of them; or a memory image',
    )
    .option('--step <n>', 'step of a trace (default: the last one)', offset)
    .option(
      '--memory <file>',
      'image of the memory that a saved queue lay in: shows what its positions refer to',
    )
    .addOption(new Option('-r, --ring <format>', 'memory image: ring format').choices(['split', 'packed']))
    .option('-s, --size <n>', 'memory image: descriptors', count(32768))
    .option(
      '--descriptor <offset>',
      'memory image: where the descriptor area starts (decimal or 0x…)',
      offset,
    )
    .option('--driver <offset>', 'memory image: where the driver area (available ring) starts', offset)
    .option('--device <offset>', 'memory image: where the device area (used ring) starts', offset)
    .option('--json [file]', 'write everything as JSON: to a file, or instead of the tables')
    .action((file: string, options: InspectOptions) => inspect(file, options, io));
}

async function inspect(file: string, { json, ...source }: InspectOptions, io: Io): Promise<void> {
  const inspected = await inspectFile(file, source);
  const text = JSON.stringify(inspected, null, 2);
  if (json === true) {
    io.out(text);
    return;
  }
  if (json !== undefined) {
    await writeReport(json, `${text}\n`);
  }
  io.out(print(inspected, io.colours ?? false));
}
