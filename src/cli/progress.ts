import { SingleBar } from 'cli-progress';
import type { Io } from './io.js';

/** A bar with the time left, or nothing if nobody watches. */
export class Progress {
  private readonly bar: SingleBar | undefined;

  constructor(io: Io, what: string, total: number) {
    if (io.progress === undefined) return;
    this.bar = new SingleBar({
      format: `${what} {bar} {percentage}% · {eta_formatted} left {note}`,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      barsize: 28,
      hideCursor: true,
      clearOnComplete: true,
      stream: io.progress,
      etaBuffer: 50,
    });
    this.bar.start(total, 0, { note: '' });
  }

  step(note = ''): void {
    this.bar?.increment(1, { note: note && `· ${note}` });
  }

  stop(): void {
    this.bar?.stop();
  }
}
