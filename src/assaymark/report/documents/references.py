"""The works that a report's method section cites, numbered in the order of citation."""

__all__ = ["WORKS", "References"]

WORKS = {
    "lm-eval": "Gao, L., Tow, J., Abbasi, B., et al. (2024). The Language Model Evaluation Harness. "
    "doi:10.5281/zenodo.12608602",
    "error bars": "Miller, E. (2024). Adding Error Bars to Evals: A Statistical Approach to Language Model "
    "Evaluations. arXiv:2411.00640",
    "wilson": "Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. Journal of "
    "the American Statistical Association 22(158), 209-212",
    "student": "Student (1908). The probable error of a mean. Biometrika 6(1), 1-25",
    "bca": "Efron, B. (1987). Better bootstrap confidence intervals. Journal of the American Statistical Association "
    "82(397), 171-185",
    "strata": "Cochran, W. G. (1977). Sampling Techniques, 3rd edition. Wiley",
    "mcnemar": "McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions or "
    "percentages. Psychometrika 12(2), 153-157",
    "tango": "Tango, T. (1998). Equivalence test and confidence interval for the difference in proportions for the "
    "paired-sample design. Statistics in Medicine 17(8), 891-908",
    "fisher": "Fisher, R. A. (1935). The Design of Experiments. Oliver and Boyd",
    "mover": "Zou, G. Y., Huang, W., Zhang, X. (2009). A note on confidence interval estimation for a linear function "
    "of binomial proportions. Computational Statistics and Data Analysis 53(4), 1080-1085",
    "holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of "
    "Statistics 6(2), 65-70",
    "calibration": "Naeini, M. P., Cooper, G. F., Hauskrecht, M. (2015). Obtaining well calibrated probabilities using "
    "Bayesian binning. Proceedings of AAAI 29, 2901-2907",
    "brier": "Brier, G. W. (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review "
    "78(1), 1-3",
}


class References:
    """Numbers works as they are cited."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def cite(self, *works: str) -> str:
        """Return the marks of works, such as `[1, 4]`: keys of WORKS, or whole references."""
        texts = [WORKS.get(work, work).rstrip(".") for work in works]
        numbers = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in texts]
        return f"[{', '.join(map(str, sorted(set(numbers))))}]"

    @property
    def listed(self) -> tuple[str, ...]:
        """The works cited so far, in the order of their numbers."""
        return tuple(f"{text}." for text in self._numbers)
