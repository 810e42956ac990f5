// Parsers of option values. What they refuse becomes one line on stderr and exit code 2.
import { InvalidArgumentError, Option } from 'commander';

function integer(text: string, min: number, max: number, what: string): number {
  const value = Number(text);
  // Number('') is 0 and Number('1e3') is 1000: only plain digits are meant.
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw new InvalidArgumentError(`Give ${what} from ${min} to ${max}.`);
  return value;
}

/** A whole number from 1 to `max`. */
export const count =
  (max: number) =>
  (text: string): number =>
    integer(text, 1, max, 'a whole number');

/** An offset in a file: decimal, or hexadecimal behind `0x`. */
export const offset = (text: string): number => {
  const value = Number(text);
  if (!/^(\d+|0x[0-9a-f]+)$/i.test(text) || !Number.isSafeInteger(value))
    throw new InvalidArgumentError('Give a whole number from 0 on, decimal or 0x….');
  return value;
};

/** How often engines take turns. */
export const rounds = (usual: number): Option =>
  new Option('-r, --rounds <n>', 'interleaved rounds of each engine')
    .argParser(count(100_000))
    .default(usual);
