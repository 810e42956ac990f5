import type { Params, Report, Result } from '../../src/cli/report.js';

/** A benchmark that `vring bench` knows by name. */
export interface Suite {
  name: string;
  /** One sentence for the help text and the report. */
  about: string;
  /** It needs more than this package: run only if it is named. */
  onRequest?: boolean;
  run(options: SuiteOptions, watch: Watch): Promise<Report>;
  /** What to draw of a report of this suite. */
  charts(report: Report): Chart[];
  /** Short name of a case; without it, what makes the case differ from most. */
  label?(params: Params): string;
}

export interface SuiteOptions {
  /** Fewer cases and shorter runs. */
  quick: boolean;
}

/** Who wants to know how far it is. */
export interface Watch {
  /** Called first, with the number of steps. */
  start(steps: number): void;
  step(note: string): void;
}

/**
 * One line per contender over one parameter, or without `x` one bar per contender and case; with whiskers from
 * minimum to maximum.
 */
export interface Chart {
  title: string;
  /** What is the same for all points. */
  subtitle: string;
  /** Parameter of the x axis, and its label. */
  x?: string;
  label?: string;
  /** Values that stay until the next one, in this unit: x is a number and no whiskers are drawn. */
  steps?: string;
  results: Result[];
}
