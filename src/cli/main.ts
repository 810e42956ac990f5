import { Command, CommanderError } from 'commander';
import { VringError } from '../index.js';
import { addBench } from './bench.js';
import { Failure, UsageError } from './errors.js';
import { addInspect } from './inspect.js';
import type { Io } from './io.js';
import { addReplay } from './replay.js';
import { addStart } from './start.js';
import { addVhostUser } from './vhost-user.js';

const EXIT_FAILURE = 1;
const EXIT_USAGE = 2;

/** Runs a command line. @returns the exit code: 0, 1 if the command failed, 2 if it makes no sense */
export async function main(argv: readonly string[], io: Io, version: string): Promise<number> {
  const program = new Command('vring');
  program
    .description('Virtqueues for JavaScript')
    .version(version)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
      getOutHelpWidth: () => io.columns,
      getErrHelpWidth: () => io.columns,
    });
  addStart(program, io);
  addReplay(program, io);
  addBench(program, io);
  addInspect(program, io);
  addVhostUser(program, io);
  try {
    await program.parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has written its message already; it throws for --help and --version too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
    if (error instanceof UsageError) {
      io.err(`error: ${error.message}`);
      return EXIT_USAGE;
    }
    if (error instanceof Failure || error instanceof VringError) {
      io.err(`error: ${error.message}`);
      return EXIT_FAILURE;
    }
    throw error;
  }
}
