import { SingleBar } from 'cli-progress';
import type { Io } from './io.js';

const EXIT_INTERRUPTED = 130; // what a shell says after SIGINT

/** A bar with the time left, or nothing if nobody watches. */
export class Progress {
  private readonly bar: SingleBar | undefined;
  private readonly interrupt = (): void => {
    this.stop();
    process.exit(EXIT_INTERRUPTED);
  };

  constructor(io: Io, what: string, total: number) {
    if (io.progress === undefined) return;
    this.bar = new SingleBar({
      format: `${what} {bar} {percentage}% · {eta_formatted} left {note}`,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      barsize: 28,
      hideCursor: true,
      clearOnComplete: true,
      // The library's own way would stop the bar and let the program go on.
      gracefulExit: false,
      stream: io.progress,
      etaBuffer: 50,
    });
    this.bar.start(total, 0, { note: '' });
    process.once('SIGINT', this.interrupt);
  }

  step(note = ''): void {
    this.bar?.increment(1, { note: note && `· ${note}` });
  }

  /** Takes the bar away. May be called again. */
  stop(): void {
    process.off('SIGINT', this.interrupt);
    this.bar?.stop();
  }
}
