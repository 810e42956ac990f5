/** Where a command writes. Tests pass their own. */
export interface Io {
  /** Results. */
  out(text: string): void;
  /** Progress and errors. */
  err(text: string): void;
  /** Where a progress bar may be drawn; undefined if nobody watches. */
  progress?: NodeJS.WriteStream;
  /** Results may be coloured: a terminal shows them, and nobody said NO_COLOR. */
  colours?: boolean;
  /** Width of the terminal. */
  columns: number;
}

export function processIo(): Io {
  const { stdout, stderr } = process;
  return {
    out: (text) => void stdout.write(`${text}\n`),
    err: (text) => void stderr.write(`${text}\n`),
    ...(stderr.isTTY && { progress: stderr }),
    colours: stdout.isTTY && stdout.hasColors(),
    columns: stdout.columns ?? 100,
  };
}
